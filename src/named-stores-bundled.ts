/** The same as named-stores.ts for bundlers: part of the bundle from the start. */
import * as file from "./stores/file/index.ts";
import * as postgres from "./stores/postgres/index.ts";
import * as redis from "./stores/redis/index.ts";
import * as s3 from "./stores/s3/index.ts";

export const loadFile = async () => file;
export const loadPostgres = async () => postgres;
export const loadRedis = async () => redis;
export const loadS3 = async () => s3;
