// The crash tests kill and starve real processes with strace and libfaketime, and the Python client is tested with Debian's
// python3. This sees to it that all are there before vitest starts, so that a missing tool is one clear line and not a dozen red tests.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

// By name only: no package of ours brings it.
const APT = "apt-get";
const NEEDED = [
  { package: "strace", present: () => onPath("strace") },
  { package: "faketime", present: () => onPath("faketime") && hasLibrary() },
  // By its path, as the tests start it: another python3 on the PATH may be any version.
  { package: "python3", present: () => existsSync("/usr/bin/python3") },
];

function onPath(command) {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => folder !== "" && existsSync(join(folder, command)));
}

/** Debian keeps it under the architecture's own folder, others in lib or lib64. */
function hasLibrary() {
  const roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].filter((root) => existsSync(root));
  return roots.some((root) =>
    [root, ...readdirSync(root).map((entry) => join(root, entry))].some((folder) =>
      existsSync(join(folder, "faketime", "libfaketime.so.1")),
    ),
  );
}

function missing() {
  return NEEDED.filter((tool) => !tool.present()).map((tool) => tool.package);
}

function apt(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  return spawnSync(APT, ["-qq", ...args], { env, stdio: ["ignore", "ignore", "inherit"] }).status === 0;
}

function install(packages) {
  const wanted = ["install", "-y", "--no-install-recommends", ...packages];
  // The package lists of a fresh container are empty; elsewhere fetching them again would only cost time.
  return apt(...wanted) || (apt("update") && apt(...wanted));
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

if (process.platform !== "linux") {
  fail(
    `The crash tests kill processes at chosen system calls and need Linux (this is ${process.platform}). Run them in a container:\n  docker run --rm -v "$PWD":/src -w /src node:20-bookworm sh -c "npm install && npm test"`,
  );
}

const absent = missing();
if (absent.length > 0) {
  const root = process.getuid?.() === 0;
  const command = `apt-get update && apt-get install -y ${absent.join(" ")}`;
  if (!onPath(APT)) fail(`The crash tests need ${absent.join(" and ")}. Install with your package manager.`);
  if (!root) fail(`The crash tests need ${absent.join(" and ")}. Run:\n  sudo sh -c "${command}"`);
  console.log(`Installing ${absent.join(" and ")} for the crash tests …`);
  if (!install(absent) || missing().length > 0)
    fail(`${missing().join(" and ")} could not be installed. Run:\n  ${command}`);
}
