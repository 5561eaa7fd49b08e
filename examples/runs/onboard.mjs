// A three-step workflow. With a step's name as argument it dies right after that step, as if the power had gone.
import { nevertwice } from "nevertwice";

const [, , store, dieAfter] = process.argv;
const nt = nevertwice({ store, sweep: false });
const dies = (step) => step === dieAfter && process.kill(process.pid, "SIGKILL");

const result = await nt.run(
  "onboard-lead",
  "lead-7",
  async (run) => {
    const lead = await run.step("source", () => {
      console.log("  source: found the lead");
      return { email: "ada@example.com" };
    });
    dies("source");
    const company = await run.step("enrich", () => {
      console.log("  enrich: looked the company up");
      return "Analytical Engines";
    });
    dies("enrich");
    const sent = await run.step("send", () => {
      console.log(`  send: wrote to ${lead.email} of ${company}`);
      return { messageId: "m-1" };
    });
    dies("send");
    return sent;
  },
  { lease: "500ms", wait: "5s" },
);
console.log(`  the run is done: ${result.messageId}`);
await nt.close();
