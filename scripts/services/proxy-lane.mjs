// One direction of a proxied connection: bytes and the end of the stream, in order, with a bound on what is held.
const MOST_HELD = 64;

export class Lane {
  #from;
  #to;
  #held = 0;
  #last = Promise.resolve();

  /**
   * @param {import("node:net").Socket} from
   * @param {import("node:net").Socket} to
   * @param {(chunk?: Buffer) => { drop: boolean, afterMs: number }} judge
   */
  constructor(from, to, judge) {
    this.#from = from;
    this.#to = to;
    from.on("data", (chunk) => this.#pass(judge(chunk), () => this.#write(chunk)));
    from.on("end", () => this.#pass(judge(), () => to.end()));
    to.on("drain", () => from.resume());
  }

  #pass({ drop, afterMs }, forward) {
    if (drop) return;
    if (afterMs === 0 && this.#held === 0) return forward();
    // Due by the clock, not one delay after the other: a big answer in many pieces is late once.
    const due = performance.now() + afterMs;
    this.#held += 1;
    if (this.#held >= MOST_HELD) this.#from.pause();
    this.#last = this.#last.then(() => sleepUntil(due)).then(() => this.#release(forward));
  }

  #release(forward) {
    this.#held -= 1;
    if (this.#held < MOST_HELD) this.#from.resume();
    forward();
  }

  #write(chunk) {
    if (this.#to.destroyed || this.#to.writableEnded) return;
    if (!this.#to.write(chunk)) this.#from.pause();
  }
}

function sleepUntil(due) {
  return new Promise((resume) => setTimeout(resume, Math.max(0, due - performance.now())));
}
