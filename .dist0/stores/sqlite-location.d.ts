export interface DefaultLocation {
    readonly path: string;
    /** Why there: shown by doctor and --verbose. */
    readonly why: string;
}
export interface Surroundings {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly platform: NodeJS.Platform;
    readonly home: string;
}
export declare function surroundings(): Surroundings;
export declare function defaultLocation(around?: Surroundings): DefaultLocation;
/** Made with a .gitignore of its own: a ledger does not belong into a commit. */
export declare function prepareFolder(path: string): void;
