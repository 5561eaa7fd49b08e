/** The same as named-stores.ts for bundlers: part of the bundle from the start. */
import * as file from "./stores/file.ts";
import * as postgres from "./stores/postgres.ts";
import * as redis from "./stores/redis.ts";
import * as s3 from "./stores/s3.ts";

export const loadFile = async () => file;
export const loadPostgres = async () => postgres;
export const loadRedis = async () => redis;
export const loadS3 = async () => s3;
