import { readFileSync } from "node:fs";
export function packageVersion() {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    return JSON.parse(text).version;
}
//# sourceMappingURL=package-version.js.map