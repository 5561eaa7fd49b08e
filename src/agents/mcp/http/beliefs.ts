/**
 * Which credentials the server has accepted, and whose its sessions are. The proxy cannot verify a token. If it took one at its
 * word, a forged one would be given another's stored answer.
 */
import type { Who } from "./principal.ts";

interface Session {
  /** Of its first credential. */
  readonly principal: string;
  current: string;
  readonly past: Set<string>;
  /** An earlier credential came again after a later one: these are two callers, no refreshed token. */
  isShared: boolean;
}

/** How long an accepted credential is believed. A token that is revoked meanwhile gets stored answers for no longer than that. */
const BELIEVED_MS = 300_000;
const MOST = 10_000;

export class Beliefs {
  readonly #now: () => number;
  readonly #most: number;
  /** By credential and session, until when. */
  readonly #accepted = new Map<string, number>();
  readonly #sessions = new Map<string, Session>();
  /** Callers by the session that they came with first; "": none. */
  readonly #homes = new Map<string, string>();

  constructor(now: () => number = Date.now, most = MOST) {
    this.#now = now;
    this.#most = most;
  }

  /** Whether the server has accepted it, lately and in this session. Without a credential there is nothing to accept. */
  isAccepted({ credential, endsAt }: Who, session: string | undefined): boolean {
    if (credential === null) return true;
    const now = this.#now();
    return (this.#accepted.get(acceptedKey(credential, session)) ?? 0) > now && (endsAt ?? now + 1) > now;
  }

  /** The server has answered a request of this caller as one that it accepts. */
  accept(who: Who, session: string | undefined): void {
    if (who.credential === null) return;
    const key = acceptedKey(who.credential, session);
    const until = this.#now() + BELIEVED_MS;
    this.#set(this.#accepted, key, Math.min(until, who.endsAt ?? until));
    if (!who.isOpaque) return;
    if (!this.#homes.has(who.principal)) this.#set(this.#homes, who.principal, session ?? "");
    this.#joins(who, session);
  }

  /** The server has begun a session for this caller. */
  began(session: string, { principal, isOpaque }: Who): void {
    if (!isOpaque) return;
    this.#set(this.#sessions, session, { principal, current: principal, past: new Set(), isShared: false });
    if (!this.#homes.has(principal)) this.#set(this.#homes, principal, session);
  }

  ended(session: string): void {
    this.#sessions.delete(session);
  }

  /**
   * Who it is. A credential that the server accepts in a session that another one began, and that is not known from elsewhere,
   * is that one, refreshed.
   */
  principalOf(who: Who, session: string | undefined): string {
    const of = session === undefined ? undefined : this.#sessions.get(session);
    if (of === undefined || !who.isOpaque) return who.principal;
    if (of.past.has(who.principal)) of.isShared = true;
    return of.isShared || of.current !== who.principal ? who.principal : of.principal;
  }

  #joins({ principal }: Who, session: string | undefined): void {
    const of = session === undefined ? undefined : this.#sessions.get(session);
    if (of === undefined || of.current === principal || this.#homes.get(principal) !== session) return;
    if (of.past.size >= MOST_REFRESHES) of.isShared = true;
    if (of.isShared || of.past.has(principal)) return;
    of.past.add(of.current);
    of.current = principal;
  }

  /** The least recently set go first: they are asked about again. */
  #set<T>(map: Map<string, T>, key: string, value: T): void {
    map.delete(key);
    map.set(key, value);
    if (map.size > this.#most) map.delete(map.keys().next().value as string);
  }
}

const MOST_REFRESHES = 1_000;

function acceptedKey(credential: string, session: string | undefined): string {
  return JSON.stringify([credential, session ?? null]);
}
