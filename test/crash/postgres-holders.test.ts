/** F15–F19, F26 on PostgreSQL: leases are judged by the server's clock, whatever the hosts' say. */
import { randomBytes } from "node:crypto";
import { freshDatabase } from "../services/addresses.ts";
import { describeHolders } from "./lib/holders.ts";

const { url } = await freshDatabase();

describeHolders("postgres", () => `${url}?schema=t_${randomBytes(6).toString("hex")}`);
