/** The four ways one intent becomes two mails. Each runs the same against either sender. */
import { ada, batch, grace, mary, wordings } from "./leads.mjs";
import { breakReply } from "./mail.mjs";
import { say } from "./print.mjs";
import { ended, heard, start } from "./processes.mjs";

const TRIES = 3;

export const causes = [
  {
    name: "reply lost",
    title: "The reply gets lost, and the agent framework tries again",
    leads: [ada],
    play: replyLost,
  },
  { name: "crash", title: "The agent dies right after the mail, and is restarted", leads: [grace], play: crash },
  { name: "overlapping crons", title: "Two crons work on one batch at the same time", leads: batch, play: overlap },
  { name: "three clicks", title: "A person clicks three times; the model rewords", leads: [mary], play: clicks },
];

async function replyLost({ place, sender }) {
  await breakReply(place, ada.to, "cut");
  for (let tries = 1; tries <= TRIES; tries += 1) {
    try {
      return say("framework", `try ${tries}: ${await ask(sender, ada)}`);
    } catch (error) {
      say("framework", `try ${tries}: ${error.message}`);
    }
  }
}

async function crash({ place, mode, server }) {
  await breakReply(place, grace.to, "stall");
  const first = await startAgent("agent", { place, mode, action: "send_followup_nightly", leads: [grace] });
  const accepted = heard(server, "accepted");
  first.send("go");
  await accepted;
  first.kill("SIGKILL");
  say("supervisor", `agent ${first.pid} is dead (${await ended(first)}); starting it again`);
  await finish(await startAgent("agent", { place, mode, action: "send_followup_nightly", leads: [grace] }));
}

async function overlap({ place, mode }) {
  const job = { place, mode, action: "send_followup", leads: batch };
  // Both have picked their work before either begins: that is what overlapping means.
  const crons = await Promise.all([startAgent("cron", job), startAgent("cron", job)]);
  await Promise.all(crons.map(finish));
}

async function clicks({ sender }) {
  const clicked = wordings.map(async (body, index) => {
    say(`click ${index + 1}`, await ask(sender, { ...mary, body }));
  });
  await Promise.all(clicked);
}

async function ask(sender, lead) {
  return sender.pending([lead]).length === 0 ? "noted before, nothing sent" : sender.send(lead);
}

async function startAgent(name, { mode, action, ...job }) {
  const agent = start("./agent.mjs", [mode, action], { name, ...job });
  agent.on("message", ({ type, who, text, colour }) => type === "say" && say(who, text, colour));
  const { todo } = await heard(agent, "ready");
  say(`${name} ${agent.pid}`, `starts; leads to mail: ${todo}`);
  return agent;
}

async function finish(agent) {
  const finished = heard(agent, "finished");
  agent.send("go");
  await finished;
  const end = await ended(agent);
  if (end !== 0) throw new Error(`${agent.program} ended with ${end}`);
}
