import { describe, expect, it } from "vitest";
import { redact } from "./redact.ts";

// The secret of each line is "hunter2…", or what stands in the second place.
const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";
const CORPUS: Readonly<Record<string, readonly (string | readonly [text: string, ...secrets: string[]])[]>> = {
  "URLs with userinfo": [
    "postgres://ana:hunter2@db.example.org:5432/app",
    "postgresql://ana:hunter2@db/app?sslmode=require",
    "redis://:hunter2@cache:6379/0",
    "rediss://default:hunter2@cache:6380",
    "https://ana:hunter2@minio.example:9000",
    "s3://AKIAIOSFODNN7EXAMPLE:hunter2@bucket/prefix",
    "mongodb+srv://ana:hunter2@cluster0.example.net/app",
    "amqps://ana:hunter2@broker/vhost",
    "HTTPS://ANA:hunter2@EXAMPLE.ORG/",
    ["https://hunter2tokenonly@sentry.example.org/1", "hunter2tokenonly"],
    ["https://hunter2:x-oauth-basic@github.com/a/b", "hunter2", "x-oauth-basic"],
  ],
  "passwords with signs that should have been encoded": [
    "postgres://ana:hunter2@hunter2@db/app",
    "postgres://ana:hunter2/hunter2@db/app",
    "postgres://ana:hunter2%40hunter2@db/app",
    "postgres://ana:hunter2#hunter2@db/app",
    "postgres://ana:hunter2?hunter2@db/app",
    "postgres://ana:hunter2:hunter2@db:5432/app",
    "postgres://ana:%hunter2@db/app",
    "redis://ana:hunter2/@h",
  ],
  "malformed URLs": [
    "postgres:/ana:hunter2@h",
    "postgres:ana:hunter2@h/app",
    "postgres:///ana:hunter2@h",
    "redis:ana:hunter2@h",
    "https:/ana:hunter2@h",
    "postgres://ana:hunter2@",
    "postgres://ana:hunter2@h:notaport/app",
    "ana:hunter2@db.example.org:5432/app",
    "--store ana:hunter2@db/app",
    "jdbc:postgresql://ana:hunter2@h/app",
    "ana:hunter2@tcp(db:3306)/app",
  ],
  "several hosts": [
    "postgres://ana:hunter2@h1:5432,h2:5432/app?target_session_attrs=read-write",
    "postgres://ana:hunter2@h1:5432,ana:hunter2@h2:5432/app",
    "mongodb://ana:hunter2@h1,h2,h3/app?replicaSet=r",
  ],
  "query parameters": [
    ...[
      "password",
      "token",
      "secret",
      "key",
      "sslpassword",
      "access_token",
      "api_key",
      "apikey",
      "client_secret",
      "sig",
      "X-Amz-Signature",
      "X-Amz-Credential",
      "X-Amz-Security-Token",
      "AWSAccessKeyId",
    ].flatMap((name) => [`https://h/p?${name}=hunter2`, `https://h/p?a=1&${name}=hunter2&b=2`]),
    "postgres://h/app?user=ana&password=hunter2",
    "postgres:/h/app?password=hunter2",
    "?password=hunter2",
    "jdbc:postgresql://h/app?user=ana&password=hunter2&ssl=true",
  ],
  "connection strings": [
    "host=h user=ana password=hunter2 dbname=app",
    "host=h password='hunter2 hunter2' dbname=app",
    "host=h password='hunter2\\'hunter2' dbname=app",
    "password = hunter2",
    "sslpassword=hunter2 host=h",
    "Server=h;User Id=ana;Password=hunter2;",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2hunter2==;",
  ],
  "command lines": [
    "--token=hunter2",
    "--token hunter2",
    "server --api-key hunter2 --port 80",
    "server --github-token=hunter2",
    "server --password 'hunter2 hunter2'",
    "docker run -e TOKEN=hunter2 image",
    "docker run -e ANY=hunter2 image",
    "docker run -e 'ANY=hunter2 hunter2' image",
    "docker run --env ANY=hunter2 image",
    "docker run --env=ANY=hunter2 image",
    "TOKEN=hunter2 node server.js",
    "DATABASE=hunter2 node server.js",
    "env A=1 TOKEN=hunter2 node server.js",
    "export STRIPE_KEY=hunter2",
    "stripe_secret=hunter2 node server.js",
    "psql -p hunter2",
    "mysql -uroot -phunter2 app",
    "curl -u ana:hunter2 https://h",
    "curl --user ana:hunter2 https://h",
  ],
  headers: [
    "Authorization: Bearer hunter2hunter2",
    "authorization: hunter2",
    "Authorization: Basic aHVudGVyMg==hunter2",
    "Proxy-Authorization: Digest username=hunter2",
    "Bearer hunter2.abc-DEF",
    "bearer hunter2hunter2hunter2hunter2",
    ["Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"],
    "X-Api-Key: hunter2",
    "Cookie: session=hunter2; other=hunter2",
    '{"Authorization":"Bearer hunter2hunter2"}',
    "{ authorization: 'Bearer hunter2hunter2' }",
  ],
  "JSON and what util.inspect shows": [
    '{"password":"hunter2"}',
    '{"db_password": "hunter2", "host": "h"}',
    '{"apiKey":"hunter2"}',
    '{"token":123456}',
    "{ host: 'h', password: 'hunter2' }",
    '{"clientSecret":"hunter2\\"hunter2"}',
    "{ accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'hunter2' }",
  ].map((text) => (text.includes("123456") ? ([text, "123456"] as const) : text)),
  "JSON inside of a text": [
    '{\\"apiKey\\":\\"hunter2\\"}',
    '{"body":"{\\"db_password\\": \\"hunter2\\", \\"host\\": \\"h\\"}"}',
    '{\\\\\\"token\\\\\\":\\\\\\"hunter2\\\\\\"}',
    '{\\"secret\\":\\"hunter2\\\\\\"hunter2\\"}',
    '{\\"secret\\":\\"hunter2',
    ['{\\"token\\":123456}', "123456"],
    '{\\"Authorization\\":\\"hunter2\\"}',
    '{\\"cookie\\":\\"session=hunter2; other=hunter2\\",\\"a\\":1}',
    'password=\\"hunter2 hunter2\\" host=h',
    "{ password: \\'hunter2\\' }",
  ],
  "a secret after its name": [
    "AKIAIOSFODNN7EXAMPLE secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "the secret access key is wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY, which is wrong",
    "secretAccessKey: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    'secret "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" is wrong',
    "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAIOSFODNN7EXAMPLE / wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  ].map((text) => [text, "wJalr", "EXAMPLEKEY"] as const),
  "tokens told by their form": [
    ...[
      "AKIAIOSFODNN7EXAMPLE",
      "ASIAIOSFODNN7EXAMPLE",
      "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
      "rk_test_4eC39HqLyjWDarjtT1zdp7dc",
      "sk-proj-abcdefghijklmnop1234",
      "sk-ant-api03-abcdefghijklmnop",
      "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
      "github_pat_11ABCDEFG0abcdefgh_ijkl",
      "glpat-abcdefghij1234567890",
      "xoxb-123456789012-abcdefghijkl",
      "xoxp-123456789012-abcdefghijkl",
      "npm_abcdefghijklmnopqrstuvwxyz0123456789",
      "AIzaSyA1234567890abcdefghijklmnopqrstuv",
      "SG.abcdefghijk.lmnopqrstuvwxyz",
      "whsec_abcdefghijklmnop",
      jwt,
    ].map((token) => [`the provider said: ${token} is not valid`, token] as const),
    ["-----BEGIN PRIVATE KEY-----\nMIIEhunter2\n-----END PRIVATE KEY-----", "MIIE"],
  ],
  "errors of drivers that repeat what they were given": [
    "Invalid URL: postgres://ana:hunter2@h:port/app",
    "TypeError [ERR_INVALID_URL]: Invalid URL { code: 'ERR_INVALID_URL', input: 'redis://:hunter2@h:x' }",
    'getaddrinfo ENOTFOUND "ana:hunter2@db"',
    "connect ECONNREFUSED (redis://default:hunter2@127.0.0.1:6379)",
    "Error: connection to postgresql://ana:hunter2@h/app failed: timeout",
    "no such store: 'postgres:/ana:hunter2@h'",
    '"rediss:ana:hunter2@h" is not a store',
  ],
};

describe("a secret is taken out of text", () => {
  for (const [group, texts] of Object.entries(CORPUS)) {
    it.each(texts.map((entry) => (typeof entry === "string" ? [entry, "hunter2"] : entry)))(
      `${group}: %s`,
      (text, ...secrets) => {
        const clean = redact(text);
        for (const secret of secrets) expect(clean).not.toContain(secret);
        expect(clean).toContain("…");
        expect(redact(`before ${text}`)).not.toContain(secrets[0]);
        // Nothing more is taken away the second time.
        expect(redact(clean)).toBe(clean);
      },
    );
  }

  it("the rest of the text stays readable", () => {
    expect(redact("postgres://ana:hunter2@db:5432/app?sslmode=require")).toBe(
      "postgres://…@db:5432/app?sslmode=require",
    );
    expect(redact("docker run --rm -e TOKEN=hunter2 -p 8080:80 image")).toBe(
      "docker run --rm -e TOKEN=… -p 8080:80 image",
    );
    expect(redact('{"host":"h","password":"x","port":1}')).toBe('{"host":"h","password":"…","port":1}');
    expect(redact("https://h/p?a=1&token=x&b=2")).toBe("https://h/p?a=1&token=…&b=2");
  });
});

describe("text without a secret stays as it is", () => {
  it.each([
    "",
    "send_followup: its record kept changing under this call. Call again.",
    "Write postgres://user:password@host:5432/database, with special characters in the password percent-encoded.",
    "redis://user:password@host:port",
    "https://registry.npmjs.org/@acme/mail",
    "https://docs.example.org/a@b/c",
    "sqlite:app.db",
    "s3://bucket/prefix?region=eu-central-1&endpoint=https://minio.example:9000",
    "redis://host:6379/0?prefix=agents&allowUnsafe=true",
    "secret: must be a string or Uint8Array of at least 16 bytes, or keys could be guessed.",
    "--secret-env MY_SECRET: that variable is not set.",
    'The key field "to" is missing: ana@example.org',
    "550 5.1.1 <ana@example.org>: user unknown",
    "to:ana@example.org",
    "mailto:ana@example.org",
    "2026-01-15T06:00:00Z node:fs app@1.2.3",
    "nt1_0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefgh0",
    "key[0]: the part is undefined.",
    "give --result or --result-file, not both.",
    "Basic authentication is not supported",
    "NEVERTWICE_STORE=sqlite:app.db",
    "a token bucket of 10/s",
    "--secret-env THE_SECRET_OF_2026_FOR_KEYS: that variable is not set.",
    "the secret must have at least 16 characters",
    'the field \\"to\\" is missing in {\\"order\\":\\"A-1\\"}',
    "exited with 1 after 12 ms: done | 3 of 4",
  ])("%s", (text) => {
    expect(redact(text)).toBe(text);
  });
});

it("ends soon, whatever the text: no pattern looks at the same signs again and again", () => {
  for (const piece of [
    "a",
    "a:",
    "@",
    "password",
    "p=",
    "--token",
    '"',
    "eyJ",
    "-p ",
    "://",
    "A=",
    "x-amz-",
    "sk-a",
    "mysql",
    "\\\\",
    '\\\\"',
    '\\\\"token\\\\":',
    "secret ",
    "AKIA",
  ]) {
    expect(redact(piece.repeat(100_000)).length).toBeGreaterThan(0);
  }
});
