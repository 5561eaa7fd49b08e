/**
 * The types of `nt.action()`: what the compiler infers of an action, in whatever order its options are written.
 *
 * TypeScript reads the properties of an object from top to bottom, and a function whose parameters are not all annotated
 * fixes each type parameter that it asks for. So each function that may come before the one that declares the input has a type
 * parameter of its own (`KeyInput`, `ProbeInput` …) whose default is the input as far as it is known: that asks for the
 * input without fixing it. A function that comes too early for that sees `Undeclared`.
 */
import type { LimitOptions } from "../core/limit.ts";
import type { PolicyOptions, ProbeAnswer } from "../core/policy.ts";
import type { Action } from "./action.ts";
import type { Check } from "./check-context.ts";
import type { AttemptContext } from "./context.ts";
import type { ProbeContext, Verdictish } from "./definition.ts";
import type { StandardSchema } from "./standard-schema.ts";

/** The input in a function that comes before whatever declares it. Its fields are not checked there. */
export interface Undeclared {
  readonly "nevertwice: declared further down"?: never;
  // biome-ignore lint/suspicious/noExplicitAny: which fields there are is declared further down
  readonly [field: string]: any;
}

type IsAny<T> = 0 extends 1 & T ? true : false;
type IsMissing<T> = IsAny<T> extends true ? false : unknown extends T ? true : false;
type IsUndeclared<T> = IsAny<T> extends true ? false : [Undeclared] extends [T] ? true : false;

type SoFar<T> = IsMissing<T> extends true ? Undeclared : T;
// biome-ignore lint/suspicious/noExplicitAny: what run returns, or prepare makes, is declared further down
type ValueSoFar<T> = unknown extends T ? any : T;
type Either<A, B> = IsMissing<A> extends true ? (IsUndeclared<B> extends true ? unknown : B) : A;

/** The input of an action: by its schema or by `run`, otherwise by an annotated `key`, `prepare` or `check`, in this order. */
export type DeclaredInput<I, KeyInput, PrepareInput, CheckInput> = Either<
  Either<Either<I, KeyInput>, PrepareInput>,
  CheckInput
>;

type DeclareTheInput = "declare what the input is: input: type<Lead>(), a schema, or key: (i: Lead) => …";

/** The compiler checks an action twice, first without looking into `run`: until then (R is unknown) any name will do. */
type FieldName<I, R> =
  IsMissing<I> extends true
    ? unknown extends R
      ? string
      : DeclareTheInput
    : IsAny<I> extends true
      ? string
      : I extends object
        ? keyof I & string
        : never;

type FieldForms<I, R> =
  IsMissing<I> extends true
    ? unknown extends R
      ? // biome-ignore lint/suspicious/noExplicitAny: the fields are not known yet
        { readonly [name: string]: true | ((value: any) => unknown) }
      : never
    : { readonly [Name in keyof I & string]?: true | ((value: Exclude<I[Name], undefined | null>) => unknown) };

type Parts = readonly unknown[];

interface FormerOptions<I, R, FormerInput> {
  readonly name?: string;
  readonly key?: readonly FieldName<I, R>[] | ((input: FormerInput) => Parts | null) | FieldForms<I, R>;
}

// An async function that returns nothing but "not-done" has the type Promise<string>: the compiler keeps the literal only
// where the expected type is a promise and nothing else. Another word counts as "unknown", with a warning.
type Answer<R> = ProbeAnswer<R> | Promise<ProbeAnswer<R> | (string & {})>;

/** The options of an action as `nt.action()` takes them; for annotations there is ActionOptions, with the same words. */
export interface InferredOptions<
  I,
  R,
  D,
  Called,
  Tx,
  Input,
  KeyInput,
  FormerInput,
  ProbeInput,
  CheckInput,
  PrepareInput,
  ExistsInput,
  LimitInput,
  ResultOf,
  Draft,
> extends PolicyOptions<(input: ProbeInput, context: ProbeContext) => Answer<NoInfer<R>>> {
  /** Any Standard Schema (zod, valibot, arktype …), or type<Input>(), which declares the type and checks nothing. */
  readonly input?: StandardSchema<Called, I>;
  /**
   * What makes two calls the same intent: field names, fields with what is made of them, or a function of the input. Without
   * it, every field that is not free.
   */
  readonly key?:
    | readonly FieldName<NoInfer<Input>, NoInfer<R>>[]
    | ((input: KeyInput) => Parts)
    | FieldForms<NoInfer<Input>, NoInfer<R>>;
  /**
   * The key, or the name, that the action had before: an intent recorded under it is found, and not run again. A list has the
   * latest first.
   */
  readonly formerly?:
    | FormerOptions<NoInfer<Input>, NoInfer<R>, FormerInput>
    | readonly FormerOptions<NoInfer<Input>, NoInfer<R>, FormerInput>[];
  /** The action handles events that come in (webhooks, messages): the id of the event in its key is no mistake then. */
  readonly inbound?: boolean;
  /** Fields that may be reworded; all others must match on a repeat. */
  readonly free?: readonly FieldName<NoInfer<Input>, NoInfer<R>>[];
  /** "manual": `run` calls ctx.sent() right before the effect. */
  readonly mark?: "auto" | "manual";
  /** Runs before the claim, where the call would claim: what it throws was surely not sent, and leaves no record. */
  readonly check?: Check<CheckInput, Tx>;
  /** Runs before the send mark, so it is safe to run again. Its draft is stored with the mark and handed to `run`. */
  readonly prepare?: (input: PrepareInput, context: AttemptContext<Tx>) => D | Promise<D>;
  readonly run: (input: Input, context: AttemptContext<Tx>, draft: Draft) => R | Promise<R>;
  /**
   * The provider's own id in a result (a message id, a charge id): kept beside it, for nt.find({ providerId }). Without
   * it: a short text, or the field `id`, `messageId`, `sid` … of the result or of its `data`.
   */
  readonly resultId?: (result: ResultOf) => string | undefined;
  /** How much of it workers may have under way, or begin per time, at one destination; holds across processes. */
  readonly limit?: LimitOptions<LimitInput>;
  /** A second opinion on an error; undefined leaves it to the built-in rules. */
  readonly classify?: (error: unknown) => Verdictish | undefined;
  /** The effect is a row under a unique key: when `run` throws its violation, what is there. undefined: it is about another row. */
  readonly exists?: (error: unknown, input: ExistsInput) => NoInfer<R> | undefined | Promise<NoInfer<R> | undefined>;
}

type Takes<Input, Taken> = IsUndeclared<Taken> extends true ? true : [Input] extends [Taken] ? true : false;

/** A key that is a function needs an input that is declared. */
type KeyWithoutInput = () => Parts;

/** What shows only when all functions were looked at: an input that nothing declares, and two functions with unlike inputs. */
type Checked<R, Input, KeyInput, FormerInput, ProbeInput, CheckInput, PrepareInput, ExistsInput, LimitInput> =
  IsMissing<Input> extends true
    ? unknown extends R
      ? unknown
      : { readonly key?: KeyWithoutInput }
    : (Takes<Input, KeyInput> extends true ? unknown : { readonly key?: (input: Input) => Parts }) &
        (Takes<Input, FormerInput> extends true
          ? unknown
          : { readonly formerly?: { readonly key?: (input: Input) => Parts | null } }) &
        (Takes<Input, ProbeInput> extends true
          ? unknown
          : { readonly doubt?: { readonly probe?: (input: Input) => unknown } }) &
        (Takes<Input, CheckInput> extends true ? unknown : { readonly check?: (input: Input) => unknown }) &
        (Takes<Input, PrepareInput> extends true ? unknown : { readonly prepare?: (input: Input) => unknown }) &
        (Takes<Input, ExistsInput> extends true
          ? unknown
          : { readonly exists?: (error: unknown, input: Input) => unknown }) &
        (Takes<Input, LimitInput> extends true ? unknown : { readonly limit?: LimitOptions<Input> });

/** `nt.action()`. `Tx` is the type of the transactions that the store takes. */
export type DefineAction<Tx> = <
  I,
  R,
  D = unknown,
  Called = unknown,
  T = Tx,
  KeyInput = SoFar<I>,
  FormerInput = SoFar<Either<I, KeyInput>>,
  ProbeInput = SoFar<Either<I, KeyInput>>,
  CheckInput = SoFar<Either<I, KeyInput>>,
  PrepareInput = SoFar<Either<I, KeyInput>>,
  ExistsInput = SoFar<Either<I, KeyInput>>,
  LimitInput = SoFar<Either<I, KeyInput>>,
  ResultOf = ValueSoFar<R>,
  Draft = ValueSoFar<D>,
>(
  name: string,
  options: InferredOptions<
    I,
    R,
    D,
    Called,
    T,
    DeclaredInput<I, KeyInput, PrepareInput, CheckInput>,
    KeyInput,
    FormerInput,
    ProbeInput,
    CheckInput,
    PrepareInput,
    ExistsInput,
    LimitInput,
    ResultOf,
    Draft
  > &
    NoInfer<
      Checked<
        R,
        DeclaredInput<I, KeyInput, PrepareInput, CheckInput>,
        KeyInput,
        FormerInput,
        ProbeInput,
        CheckInput,
        PrepareInput,
        ExistsInput,
        LimitInput
      >
    >,
) => Action<IsMissing<Called> extends true ? DeclaredInput<I, KeyInput, PrepareInput, CheckInput> : Called, R, T>;
