// The job: publishes the slot's post, by a provider that honours idempotency keys.
const { NEVERTWICE_KEY: key, NEVERTWICE_SLOT: slot, NEVERTWICE_ATTEMPT: attempt } = process.env;
const [, , provider] = process.argv;

const response = await fetch(`${provider}/posts`, { method: "POST", headers: { "idempotency-key": key }, body: slot });
console.log(`attempt ${attempt}: ${await response.text()}`);
