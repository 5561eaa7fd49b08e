/** Where an S3 ledger is: from s3://bucket/prefix?region=…&endpoint=… or from options, to a place requests can go to. */
import { configError } from "../../core/errors.ts";
import { requireGiven } from "../../core/given-option.ts";
import type { StoreTraits } from "../../core/store.ts";
import type { S3Credentials } from "./signature.ts";

export const S3_TRAITS: StoreTraits = { hosts: "many", survives: "power-loss", clock: "client", dueIndex: false };

export interface S3Place {
  readonly bucket: string;
  /** Ends with a slash, or is empty. */
  readonly prefix: string;
  readonly region: string;
  /** Where the bucket's objects are, without a slash at the end. */
  readonly base: string;
}

export interface S3PlaceOptions {
  /** s3://bucket/prefix */
  readonly url: string;
  /** us-east-1 unless given, or $AWS_REGION. */
  readonly region?: string;
  /** Another S3 than Amazon's: https://minio.example:9000. The bucket then stands in the path. */
  readonly endpoint?: string;
}

export function s3Name({ bucket, prefix }: S3Place): string {
  return `s3://${bucket}/${prefix}`;
}

type Env = Readonly<Record<string, string | undefined>>;

export function s3Place(options: S3PlaceOptions, env: Env): S3Place {
  const { url } = options;
  // By default another store would be used, in which nothing has happened yet.
  requireGiven("s3Store", options, ["endpoint"]);
  const parsed = typeof url === "string" && /^s3:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || parsed.hostname === "")
    throw configError(`s3Store: ${JSON.stringify(url)} names no bucket. Write s3://bucket/prefix`);
  // Not shown: what stands there may be a secret.
  if (parsed.username !== "" || parsed.password !== "" || parsed.port !== "")
    throw configError(
      "s3Store: an S3 address is s3://bucket/prefix, without credentials or a port. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a port belongs to the endpoint: ?endpoint=https://minio.example:9000",
    );
  for (const name of parsed.searchParams.keys()) {
    if (name !== "region" && name !== "endpoint")
      throw configError(`s3Store: ${name} is not a parameter of an S3 address; it takes region and endpoint.`);
  }
  const set = (name: string) => setIn(env, name);
  const region =
    options.region ??
    parsed.searchParams.get("region") ??
    set("AWS_REGION") ??
    set("AWS_DEFAULT_REGION") ??
    "us-east-1";
  const endpoint =
    options.endpoint ?? parsed.searchParams.get("endpoint") ?? set("AWS_ENDPOINT_URL_S3") ?? set("AWS_ENDPOINT_URL");
  const bucket = parsed.hostname;
  // Of the text, not of the parsed URL, in which "a/../b" has become "b" already.
  const path = prefixOf(
    url
      .slice("s3://".length)
      .replace(/[?#].*$/s, "")
      .replace(/^[^/]*/, ""),
  );
  return { bucket, region, prefix: path === "" ? "" : `${path}/`, base: baseOf(bucket, region, endpoint) };
}

/** A scheduler's secret that is not there is an empty text in the environment: not set. */
function setIn(env: Env, name: string): string | undefined {
  return env[name]?.trim() === "" ? undefined : env[name];
}

function prefixOf(path: string): string {
  let prefix: string;
  try {
    prefix = decodeURIComponent(path).replace(/^\/+|\/+$/g, "");
  } catch {
    throw configError(
      `s3Store: the prefix ${JSON.stringify(path)} is not well encoded: a % stands before two hexadecimal digits.`,
    );
  }
  if (prefix !== "" && prefix.split("/").some(isUnsafeSegment))
    throw configError(
      `s3Store: the prefix ${JSON.stringify(prefix)} has a part that is empty, "." or "..", or holds a control character. On the way to the store such a path would become another one. Write plain names: s3://bucket/agents/production`,
    );
  return prefix;
}

function isUnsafeSegment(segment: string): boolean {
  return segment === "" || segment === "." || segment === ".." || /[\p{Cc}\\]/u.test(segment);
}

function baseOf(bucket: string, region: string, endpoint: string | undefined): string {
  if (endpoint === undefined) {
    // A dot in the name does not fit the certificate of a host of its own.
    const host = `s3.${region}.amazonaws.com`;
    return bucket.includes(".") ? `https://${host}/${bucket}` : `https://${bucket}.${host}`;
  }
  const at = URL.canParse(endpoint) ? new URL(endpoint) : null;
  // Not shown: what stands there is a secret.
  if (at !== null && (at.username !== "" || at.password !== ""))
    throw configError(
      "s3Store: the endpoint holds a user or a password. Take them out: credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the option credentials.",
    );
  if (at === null || !/^https?:$/.test(at.protocol) || at.search !== "" || at.hash !== "")
    throw configError(
      `s3Store: endpoint is ${JSON.stringify(endpoint)}; give a URL such as https://minio.example:9000`,
    );
  return `${endpoint.replace(/\/+$/, "")}/${bucket}`;
}

export function credentialsFrom(env: Env): S3Credentials {
  const [accessKeyId, secretAccessKey, sessionToken] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
  ].map((name) => setIn(env, name));
  if (accessKeyId !== undefined && secretAccessKey !== undefined)
    return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
  throw configError(
    "s3Store: there are no credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass credentials (an object, or an async function such as a provider of the AWS SDK), or fetch (a signing one, such as aws4fetch's).",
  );
}
