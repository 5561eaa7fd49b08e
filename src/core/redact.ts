/**
 * Secrets taken out of text that leaves: error messages, suggestions, names. It goes by shape, so that it also works on
 * text that nobody could parse (a malformed URL is exactly what ends up in an error message). What looks like a secret
 * and is none is lost as well: these texts are for people, nothing depends on them.
 */
const GONE = "…";

/** The name of a parameter, field, flag or variable that holds a secret. Bounded, so that long words cost little. */
const SECRET_WORD =
  "(?:passw(?:or)?d|passphrase|passwd|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|account[-_]?key|credential|signature|x-amz-[a-z-]{1,30})";
const SECRET_NAME = `[\\w.-]{0,40}?${SECRET_WORD}[\\w.-]{0,40}`;
/** The same as prose has it; a header or parameter of AWS, or a signature, may be followed by an id. */
const SPOKEN_NAME =
  "[\\w.-]{0,40}?(?:passw(?:or)?d|passphrase|secret|token|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key|credential)[\\w.-]{0,40}";
/** A variable or a file that holds a secret is named, not shown: --secret-env, PASSWORD_FILE. */
const POINTER = "(?:[-_](?:env|file|path|name))";
/** A quote inside of a text that was quoted again, once or more: \\", \\\\\\". */
const ESCAPED_QUOTE = "\\\\{1,8}[\"']";
const QUOTED = `"(?:[^"\\\\]|\\\\.){0,4096}"?|'(?:[^'\\\\]|\\\\.){0,4096}'?|${ESCAPED_QUOTE}(?:(?!${ESCAPED_QUOTE})[\\s\\S]){0,4096}(?:${ESCAPED_QUOTE})?`;
/** Schemes that are told from a word with a colon when the slashes are missing: postgres:u:pw@h. */
const SCHEME =
  "postgres(?:ql)?|rediss?|valkeys?|mysql|mariadb|mongodb(?:\\+srv)?|amqps?|https?|wss?|s3|ftp|smtps?|jdbc";

type Rule = readonly [pattern: RegExp, replacement: string | ((...match: string[]) => string)];

const RULES: readonly Rule[] = [
  [/-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g, GONE],
  // scheme://userinfo@host, however malformed; and without its slashes where the scheme is a known one.
  [
    /\b([a-z][a-z0-9+.-]{0,30}:\/\/+)([^\s"'`<>]{1,4096})/gi,
    (_, scheme, rest) => `${scheme}${withoutUserinfo(rest, false)}`,
  ],
  [
    new RegExp(`\\b((?:${SCHEME}):/?)(?!/)([^\\s"'\`<>]{1,4096})`, "gi"),
    (_, scheme, rest) => `${scheme}${withoutUserinfo(rest, true)}`,
  ],
  // user:password@host without any scheme.
  [
    /(?<![\w/:.@%-])(?!(?:to|cc|bcc|from|reply-to|mail|mailto|email|npm|user|for|error):)([\w.%+-]{0,64}):([^\s"'`<>@:/]{1,256}(?:@[^\s"'`<>@:/]{1,256})?)@(?=[\w[])/gi,
    `${GONE}@`,
  ],
  [
    /\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token)((?:\\{0,8}["'])?\s*[:=]\s*)(?!\\{0,8}["']?…)[^\r\n]{1,4096}/gi,
    headerValue,
  ],
  // Told from a word after "Basic" by a digit, a capital or a sign in it, or by its length.
  [
    /\b([Bb]earer|BEARER|[Bb]asic|BASIC|[Nn]egotiate|[Aa]pi[Kk]ey)(\s{1,4})(?:(?=[a-z.~-]{0,256}[\dA-Z_=+/])[\w.~+/-]{8,4096}|[\w.~+/-]{20,4096})=*/g,
    `$1$2${GONE}`,
  ],
  // \"password\": \"…\", where a quote of the value itself has more backslashes than those around it.
  [
    new RegExp(
      `((${ESCAPED_QUOTE})${SECRET_NAME}(?<!${POINTER})\\2\\s{0,4}:\\s{0,4})\\2(?:(?!(?<!\\\\)\\2)[\\s\\S]){0,4096}(?:\\2)?`,
      "gi",
    ),
    `$1$2${GONE}$2`,
  ],
  // "password": "…", password: '…', in JSON and in what util.inspect shows.
  [
    new RegExp(`((["']?)(?<![\\w.-])${SECRET_NAME}(?<!${POINTER})\\2\\s{0,4}:\\s{0,4})(?:${QUOTED})`, "gi"),
    `$1"${GONE}"`,
  ],
  [new RegExp(`((\\\\{0,8}["'])${SECRET_NAME}\\2\\s{0,4}:\\s{0,4})-?\\d[\\d.]{0,64}`, "gi"), `$1"${GONE}"`],
  // -e NAME=value, --env NAME=value: any value may be one.
  [/((?:^|\s)(?:-e|--env)(?:\s{1,4}|=)(["'])\w{1,100}=)[^"'\n]{1,4096}\2/g, `$1${GONE}$2`],
  [new RegExp(`((?:^|\\s)(?:-e|--env)(?:\\s{1,4}|=)["']?\\w{1,100}=)(?:${QUOTED}|[^\\s"']{1,4096})`, "g"), `$1${GONE}`],
  // ?password=…&, where the next parameter begins at an ampersand.
  [new RegExp(`([?&;](?:${SECRET_NAME}|pass|key|sig|auth)=)[^\\s"'\`<>&#;]{1,4096}`, "gi"), `$1${GONE}`],
  // password=… of a connection string, --token=…, NAME_TOKEN=…
  [
    new RegExp(
      `((?<![\\w.?&;-])(?:--?)?(?:${SECRET_NAME}|pass)(?<!${POINTER})\\s{0,2}=\\s{0,2})(?:${QUOTED}|[^\\s"';]{1,4096})`,
      "gi",
    ),
    `$1${GONE}`,
  ],
  // NAME=value command
  [
    new RegExp(`((?:^|\\s)(?!NEVERTWICE_|NODE_ENV)[A-Z][A-Z0-9_]{1,100}=)(?:${QUOTED}|[^\\s"']{1,4096})`, "g"),
    (all, name) => (/(?:_FILE|_PATH|_ENV)=$/.test(name ?? "") ? all : `${name}${GONE}`) as string,
  ],
  // --token value
  [
    new RegExp(`((?:^|\\s)--${SECRET_NAME}(?<!${POINTER})\\s{1,4})(?!--)(?:${QUOTED}|[^\\s"']{1,4096})`, "gi"),
    `$1${GONE}`,
  ],
  // -p value, but not a port or a mapping of ports.
  [/((?:^|\s)-p\s{1,4})(?![\d.:[\]/-]{1,64}(?:tcp|udp)?(?:\s|$))(?!-)[^\s"']{1,4096}/g, `$1${GONE}`],
  [/(\b(?:mysql\w*|mariadb\w*)\b[^\n]{0,500}?\s-p)[^\s"']{1,256}/g, `$1${GONE}`],
  // curl -u user:password
  [/((?:^|\s)(?:-u|--user)(?:\s{1,4}|=))[^\s"':]{1,256}:[^\s"']{1,4096}/g, `$1${GONE}`],
  // The secret access key is wJalr…: a long word with a digit in it after the name of a secret.
  [
    new RegExp(
      `((?<![\\w.-])${SPOKEN_NAME}(?<!${POINTER})(?:\\s{1,4}(?:access|key|value|is|was)\\b){0,3}(?:\\s{1,4}|\\s{0,4}:\\s{0,4})["'(<]?)(?=[A-Za-z/+_.~=-]{0,256}\\d)[\\w/+.~=-]{16,4096}`,
      "gi",
    ),
    `$1${GONE}`,
  ],
  // An AWS secret key beside its id.
  [/\b((?:AKIA|ASIA)[A-Z0-9]{12,32}[^\w\n]{1,4})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])/g, `$1${GONE}`],
  // Tokens that can be told by their own form.
  [/\b(?:sk|rk|pk)_(?:live|test)_\w{8,256}/g, GONE],
  [/\bsk-(?:[\w-]{16,512})/g, GONE],
  [/\b(?:gh[opsur]_|github_pat_|glpat-|npm_|hf_|shpat_|shpss_|dop_v1_|whsec_|xapp-|xox[a-z]-)[\w-]{8,512}/g, GONE],
  [/\b(?:AKIA|ASIA)[A-Z0-9]{12,32}\b/g, GONE],
  [/\bAIza[\w-]{30,64}/g, GONE],
  [/\bSG\.[\w-]{8,128}\.[\w-]{8,128}/g, GONE],
  [/\beyJ[\w-]{4,4096}\.[\w-]{4,4096}(?:\.[\w-]{0,4096})?/g, GONE],
];

// Without one of these no rule can match. Most messages hold none of the rarer ones, and pass after one look each.
const WORTH_A_LOOK =
  /[@=]|bearer|basic|negotiate|apikey|auth|cookie|key|secret|token|pass|pwd|credential|signature|:\s?["'\d-]|-[pu]|--user|_|xox|sk-|glpat|AKIA|ASIA|AIza|SG\.|eyJ/i;

/** For text that people or other programs see. */
export function redact(text: string): string {
  if (!WORTH_A_LOOK.test(text)) return text;
  let clean = text;
  for (const [pattern, replacement] of RULES) clean = clean.replace(pattern, replacement as string);
  return clean;
}

/**
 * A password may hold "@" and "/" that nobody encoded, so the last "@" ends the userinfo. An "@" behind a plain host and a
 * slash is part of a path. What our own messages show as an example stays readable.
 */
function withoutUserinfo(rest: string, needsColon: boolean): string {
  const at = rest.lastIndexOf("@");
  if (at === -1) return rest;
  const userinfo = rest.slice(0, at);
  if (userinfo === "user:password") return rest;
  const authority = /^[^/?#]*/.exec(rest)?.[0] ?? "";
  const hasColon = /:(?!\d{1,5}(?:[/?#,]|$))/.test(userinfo);
  if (needsColon && !hasColon) return rest;
  if (!authority.includes("@") && !hasColon) return rest;
  return `${GONE}@${rest.slice(at + 1)}`;
}

/** The whole line belongs to the header, but for a quote that ends a JSON text. */
function headerValue(all: string, name: string, sign: string): string {
  const value = all.slice(name.length + sign.length);
  // Authorization = OAuth: the word alone is no value.
  if (!/[\w=+/]{3}/.test(value)) return all;
  const quote = /^\\{0,8}["']/.exec(value)?.[0];
  const end = quote === undefined ? -1 : value.indexOf(quote, 1);
  return `${name}${sign}${quote ?? ""}${GONE}${end === -1 ? "" : value.slice(end)}`;
}
