import { expect, it } from "vitest";
import { classify } from "./classify.ts";
import { isUniqueViolation, sqlErrorOf } from "./sql-error.ts";

const error = (fields: object) => Object.assign(new Error("no"), fields);

it("SQLSTATE: a code alone is no word of a database", () => {
  for (const code of ["EPIPE", "23505", "40001", "P2002", "42000"]) expect(sqlErrorOf(error({ code }))).toBeUndefined();
  expect(sqlErrorOf(error({ code: 42501, severity: "ERROR" }))).toBeUndefined();
  expect(classify(error({ code: "40001" }), 0)).toMatchObject({ kind: "doubt" });
});

it("SQLSTATE: what leaves open whether a commit arrived is doubt", () => {
  for (const code of ["08006", "08007", "40003", "57014", "57P01", "57P02", "XX000", "25P02"])
    expect(classify(error({ code, severity: "FATAL" }), 0)).toMatchObject({ kind: "doubt" });
});

it("SQLSTATE: in a cause; after a request to somebody else it is doubt", () => {
  const inner = error({ code: "40001", severity: "ERROR" });
  const wrapped = new Error("Failed query", { cause: inner });
  expect(classify(wrapped, 0)).toMatchObject({ kind: "not-sent", cause: wrapped });
  expect(classify(wrapped, 0, 1)).toMatchObject({ kind: "doubt" });
  const postgrest = { code: "40001", message: "no", details: null, hint: null };
  expect(classify(postgrest, 0, 1)).toMatchObject({ kind: "not-sent" });
  expect(classify(postgrest, 0, 2)).toMatchObject({ kind: "doubt" });
});

it("SQLSTATE: unique violations of other databases, and circular causes", () => {
  for (const code of ["SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "ER_DUP_ENTRY"])
    expect(isUniqueViolation(new Error("outer", { cause: error({ code }) }))).toBe(true);
  const circular = error({ code: "x" });
  circular.cause = circular;
  for (const other of [circular, null, "23505", error({ code: "SQLITE_CONSTRAINT_CHECK" })])
    expect(isUniqueViolation(other)).toBe(false);
  expect(isUniqueViolation(error({ code: "ERR_SQLITE_ERROR", errcode: 2067 }))).toBe(true);
  expect(isUniqueViolation(error({ code: "ERR_SQLITE_ERROR", errcode: 275 }))).toBe(false);
});
