import { type Case } from "../harness.ts";
export declare const basics: readonly Case[];
