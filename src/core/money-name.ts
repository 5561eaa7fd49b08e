/**
 * Names that sound like money: `pay_invoice`, `createRefund`, `book-flight`. Told by whole words, so that "payload", "border"
 * and "reorder_list" are none, and without tools that only look ("get_order", "payment_status"). Good for a warning, for
 * nothing more: what moves money is said with effect: "payment".
 */

const MONEY = new Set(
  `pay pays payment payments payout payouts payroll repay prepay autopay refund refunds reimburse transfer transfers remit wire
  order orders preorder book booking bookings buy purchase purchases charge charges checkout withdraw withdrawal withdrawals
  deposit deposits donate donation disburse disbursement topup money`.split(/\s+/),
);
// As the first word: the tool looks, or is about the word itself (sort_order).
const LOOKS = new Set(
  "get list search find read fetch show count query describe lookup view check validate verify estimate quote preview track watch export sort is has".split(
    " ",
  ),
);
// As the last word: about an order or a payment that is there.
const ABOUT = new Set("status history list details info id ids by summary report reports methods options".split(" "));

export function soundsLikeMoney(name: string): boolean {
  const words = wordsOf(name);
  if (LOOKS.has(words[0] ?? "") || ABOUT.has(words.at(-1) ?? "")) return false;
  return words.some((word) => MONEY.has(word));
}

/** Whether the name says that the tool only looks: list_issues, getUser. Good for a suggestion, for nothing more. */
export function soundsLikeReading(name: string): boolean {
  return LOOKS.has(wordsOf(name)[0] ?? "");
}

/** snake_case, kebab-case, camelCase, PascalCase, dots and slashes; "HTTPPay" is HTTP and Pay. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2")
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}]+/u)
    .filter((word) => word !== "");
}
