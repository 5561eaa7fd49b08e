/** Who is to get a follow-up, and what for. Everything that names the intent is here, before anybody calls anything. */
const followUp = (name) => ({
  id: `lead_${name}`,
  template: "followup_v2",
  // When the follow-up is due comes from the CRM, not from the clock of the call: a retry names the same day.
  due: "2026-01-15T09:00:00Z",
  to: `${name}@example.com`,
  body: `Hello ${name}, shall we talk this week?`,
});

export const ada = followUp("ada");
export const grace = followUp("grace");
export const batch = [followUp("alan"), followUp("barbara"), followUp("edsger")];
export const mary = followUp("mary");

/** A model never words a mail the same way twice. */
export const wordings = [
  mary.body,
  "Hi mary, do you have ten minutes this week?",
  "Dear mary, I would love to hear what you think.",
];
