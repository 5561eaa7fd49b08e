/** Cron expressions, by the library that knows them. An optional peer: who names no expression needs no library. */
import { createRequire } from "node:module";
import { configError, messageOf } from "../core/errors.ts";

/** As much of croner as is used here. */
export interface CronExpression {
  nextRun(after: Date): Date | null;
  previousRuns(count: number, before: Date): Date[];
  /** Nicknames such as @yearly spelled out. */
  getPattern(): string;
}

type CronConstructor = new (
  expression: string,
  options: { readonly timezone: string; readonly paused: true },
) => CronExpression;

const require = createRequire(import.meta.url);

function load(): CronConstructor {
  try {
    return (require("croner") as { Cron: CronConstructor }).Cron;
  } catch (error) {
    throw configError(
      `a cron expression needs the package croner. Run: npm install croner@11. Or say every: "5m" instead of cron. (${messageOf(error).split("\n")[0]})`,
      error,
    );
  }
}

export function parseCron(expression: string, timeZone: string, where: string): CronExpression {
  const Cron = load();
  try {
    const parsed = new Cron(expression, { timezone: timeZone, paused: true });
    // A zone that does not exist is noticed by the first question, not by the constructor.
    if (parsed.nextRun(new Date(0)) !== null) return parsed;
  } catch (error) {
    throw configError(
      `${where}: ${JSON.stringify(expression)} in the zone ${JSON.stringify(timeZone)} is not a schedule: ${sentence(messageOf(error))} An expression has five fields (minute, hour, day, month, weekday), such as "0 6 * * 1-5"; a zone is a name such as "Europe/Berlin".`,
      error,
    );
  }
  throw configError(`${where}: ${JSON.stringify(expression)} is never due: there is no such day in any year.`);
}

/** The library's first sentence, with its full stop; what it says of its own inside is in the cause. */
function sentence(text: string): string {
  const [first = text] = text.split(/(?<=\.) (?=[A-Z])/);
  return first.endsWith(".") ? first : `${first}.`;
}
