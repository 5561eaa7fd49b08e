// A private PostgreSQL that speaks TLS, with a certificate of its own making.
import { join } from "node:path";
import { configure } from "./postgres.mjs";
import { program } from "./programs.mjs";
import { giveAway } from "./unprivileged.mjs";
import { until } from "./until.mjs";

/**
 * Has a running server answer in TLS from now on, and says where its certificate lies.
 * @param {import("./keep.mjs").Keep} keep @param {import("./postgres.mjs").Postgres} server @returns {Promise<string>}
 */
export async function speakTls(keep, server) {
  const [key, certificate] = [join(server.folder, "tls.key"), join(server.folder, "tls.crt")];
  const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"];
  const made = ["-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate];
  await keep.run({ name: "openssl", command: program("openssl"), args: ["req", "-x509", ...subject, ...made] });
  for (const path of [key, certificate]) giveAway(path);
  configure(server.data, { ssl: "on", ssl_key_file: key, ssl_cert_file: certificate });
  server.signal("SIGHUP");
  await until(async () => (await server.query("SHOW ssl"))[0]?.ssl === "on", { what: `${server.name} in TLS` });
  return certificate;
}
