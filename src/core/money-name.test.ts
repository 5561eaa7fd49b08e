import { expect, it } from "vitest";
import { soundsLikeMoney } from "./money-name.ts";

it.each([
  "pay",
  "pay_invoice",
  "createPayment",
  "refund-customer",
  "RefundOrder",
  "bank.transfer",
  "place_order",
  "book_flight",
  "buyTicket",
  "stripe/charge",
  "HTTPPay",
  "order_pizza",
  "send_money",
  "checkout2",
  "orders_create",
])("%s sounds like money", (name) => {
  expect(soundsLikeMoney(name)).toBe(true);
});

it.each([
  "payload",
  "parse_payload",
  "border",
  "set_border",
  "reorder_list",
  "notebook",
  "facebook_post",
  "recharge_battery",
  "get_order",
  "listOrders",
  "payment_status",
  "sort_order",
  "order_by",
  "transferred",
  "send_mail",
  "bookmark",
  "",
  "注文",
])("%s does not", (name) => {
  expect(soundsLikeMoney(name)).toBe(false);
});
