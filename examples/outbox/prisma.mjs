// The outbox in an interactive transaction of Prisma. Its client is made by: npx prisma generate --schema prisma/schema.prisma
import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";
import { confirmOrder, workOff } from "./shop.mjs";

const { PrismaClient } = createRequire(import.meta.url)("./prisma/client");
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
await prisma.$executeRaw`CREATE TABLE orders (id integer PRIMARY KEY)`;

const order = (id, declined = false) =>
  prisma.$transaction(async (tx) => {
    await tx.orders.create({ data: { id } });
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await prisma.$disconnect();

// → order 2 rolled back: card declined
// → mail for order 1
