/**
 * Stores that are loaded when a program names one: most programs name none of them. A bundler gets named-stores-bundled.ts
 * instead, so that the bundle of a program stays one file (see "imports" in package.json).
 */
export const loadFile = () => import("./stores/file/index.ts");
export const loadPostgres = () => import("./stores/postgres/index.ts");
export const loadRedis = () => import("./stores/redis/index.ts");
export const loadS3 = () => import("./stores/s3/index.ts");
