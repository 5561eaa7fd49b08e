import type { Payload } from "./record.ts";
export interface Sealer {
    seal(payload: Payload, bound: SealBinding): Payload;
    open(payload: Payload, bound: Omit<SealBinding, "fence">): Payload;
}
export interface SealBinding {
    readonly tenant: string;
    readonly key: string;
    /** At sealing time. It travels in the sealed text, so that a record claimed again can still open its old draft. */
    readonly fence: number;
    readonly field: "input" | "draft" | "result";
}
/** 32 bytes, or their base64 or hex. */
export type EncryptKey = Uint8Array | string;
/** The first key seals, all of them open: put the new key first to rotate, and drop the old one when its records are gone. */
export type EncryptOption = EncryptKey | readonly [EncryptKey, ...EncryptKey[]];
export declare function sealer(option: EncryptOption): Sealer;
