/** CRC-32, of rows, lines and objects. */
type Crc32 = (data: string | Uint8Array) => number;
let crc32: Crc32 | undefined;

/** Node's module for it is loaded with the first record: a program on a store without checksums needs none of it. */
export function checksum(data: string | Uint8Array): number {
  crc32 ??= process.getBuiltinModule("node:zlib").crc32 as Crc32;
  return crc32(data);
}

export const SUM_DIGITS = 8;

export function hexSum(data: string | Uint8Array): string {
  return checksum(data).toString(16).padStart(SUM_DIGITS, "0");
}
