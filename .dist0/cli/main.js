#!/usr/bin/env node
/** The command `nevertwice`. */
import { homedir, userInfo } from "node:os";
import { run } from "./run.js";
function sink(stream) {
    // A reader that has seen enough (nevertwice ls | head) closes the pipe: that is an end, not an error.
    stream.on("error", (error) => {
        process.exit(error.code === "EPIPE" ? 0 : 1);
    });
    return {
        write: (text) => void stream.write(text),
        isTTY: stream.isTTY === true,
        columns: stream.columns,
    };
}
function userName() {
    try {
        return userInfo().username;
    }
    catch {
        // A container's user id without a name.
        return process.env.USER ?? process.env.LOGNAME ?? null;
    }
}
const io = {
    stdout: sink(process.stdout),
    stderr: sink(process.stderr),
    env: process.env,
    cwd: process.cwd(),
    home: homedir(),
    platform: process.platform,
    user: userName,
};
const code = await run(process.argv.slice(2), io);
// A module loaded for `resend --actions` may keep connections open: what was written is flushed, then it ends here.
process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
//# sourceMappingURL=main.js.map