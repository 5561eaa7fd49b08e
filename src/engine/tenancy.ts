/** Whose records a loop may touch: those of one tenant, or, where that is stated explicitly, everybody's. */
import { configError } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { unstorableIn } from "../core/storable-text.ts";

/** The choice of a worker, a take, a sweep, a retryAll or a resolveAll. */
export interface TenantChoice {
  /** Only records of this tenant; of the tenant of nevertwice({ tenant }) unless given. */
  readonly tenant?: string;
  /** Records of all tenants, although nevertwice() has one of its own. */
  readonly tenants?: "all";
}

/**
 * The tenant to keep to; undefined: all of them. `own` is the tenant that nevertwice() is confined to, undefined where
 * it has none or was told `tenants: "all"`.
 */
export function tenantOf(choice: TenantChoice, own: string | undefined, where: string): string | undefined {
  checkTenantChoice(choice, where);
  const { tenant, tenants } = choice;
  if (tenants !== undefined && tenant !== undefined)
    throw configError(
      `${where}: tenant is ${JSON.stringify(tenant)} and tenants is "all". Give tenant for one of them, or tenants: "all" for everybody's.`,
    );
  if (tenants === "all") return undefined;
  if (tenant !== undefined && own !== undefined && tenant !== own)
    throw configError(
      `${where}: tenant is ${JSON.stringify(tenant)}, and this nevertwice() is confined to ${JSON.stringify(own)}. To serve other tenants, make it with tenants: "all", or make a nevertwice() of that tenant.`,
    );
  return tenant ?? own;
}

/** A blank or missing name is mostly a variable that is not set: it must not mean everybody. */
export function checkTenantChoice(choice: TenantChoice, where: string): void {
  requireGiven(where, choice, ["tenant"]);
  const { tenant, tenants } = choice;
  if (tenant !== undefined && (typeof tenant !== "string" || tenant.trim() === ""))
    throw configError(
      `${where}: tenant is ${JSON.stringify(tenant) ?? String(tenant)}; give a name that is not blank, or leave it out.`,
    );
  const unstorable = tenant === undefined ? null : unstorableIn(tenant);
  if (unstorable !== null) throw configError(`${where}: tenant ${JSON.stringify(tenant)}: ${unstorable}.`);
  if ("tenants" in choice && tenants !== "all")
    throw configError(
      `${where}: tenants is ${JSON.stringify(tenants) ?? String(tenants)}; it takes "all" (work of every tenant), or leave it out. One tenant goes into tenant.`,
    );
}

/** As the queries of a store take it. */
export function onlyOf(tenant: string | undefined): { readonly tenant?: string } {
  return tenant === undefined ? {} : { tenant };
}
