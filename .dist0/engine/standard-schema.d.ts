export interface StandardSchema<Input = unknown, Output = Input> {
    readonly "~standard": {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
        readonly types?: {
            readonly input: Input;
            readonly output: Output;
        } | undefined;
    };
}
type SchemaResult<Output> = {
    readonly value: Output;
    readonly issues?: undefined;
} | {
    readonly issues: readonly SchemaIssue[];
};
interface SchemaIssue {
    readonly message: string;
    readonly path?: readonly (PropertyKey | {
        readonly key: PropertyKey;
    })[] | undefined;
}
export type InferInput<S> = S extends {
    readonly "~standard": {
        readonly types?: infer T;
    };
} ? NonNullable<T> extends {
    readonly input: infer I;
} ? I : never : never;
export type InferOutput<S> = S extends {
    readonly "~standard": {
        readonly types?: infer T;
    };
} ? NonNullable<T> extends {
    readonly output: infer O;
} ? O : never : never;
export declare function parseInput(schema: StandardSchema, input: unknown, action: string): Promise<unknown>;
export {};
