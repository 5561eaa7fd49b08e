/** Why the state machine says no. */
export type Refusal =
  | "absent" // there is no record
  | "exists" // there is one already
  | "leased" // another attempt holds a live lease
  | "not-due" // queued for later
  | "not-its-turn" // queued in an order, behind others
  | "final" // confirmed, or failed for good
  | "other-input" // queued with another input, which a worker is going to run
  | "in-doubt" // sent or unknown: a claim could double the effect
  | "not-in-doubt" // nothing to settle
  | "not-failed" // only a failed record can be retried
  | "kept" // its claim promised to keep it, delivered or not
  | "stale" // the fence or the holder is not the present one
  | "lease-lost" // ours, but the lease is over
  | "no-room" // the lease is shorter than the attempt may take
  | "too-early" // an earlier attempt could still arrive
  | "window-over"; // the provider has forgotten the key
