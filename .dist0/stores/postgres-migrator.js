/** `nevertwice migrate`: the schema's migrations by themselves, with a role that may make them. */
import { openDriver } from "./postgres-driver.js";
import { storeError } from "./postgres-errors.js";
import { look, migrate, pending } from "./postgres-migrate.js";
import { checkOptions } from "./postgres-options.js";
import { grantSql, migrationSql, quoteName, rlsSql, SCHEMA_VERSION } from "./postgres-schema.js";
export async function performMigration(options) {
    const { url, rls, grant, dryRun } = options;
    const version = SCHEMA_VERSION;
    // Any URL will do where none is used: the schema's name is checked with it.
    const settings = checkOptions({
        url: url ?? "postgres://localhost/",
        migrate: "manual",
        ...(options.schema !== undefined && { schema: options.schema }),
    });
    const { schema, name: store } = settings;
    const grants = grant === undefined ? [] : grantSql(schema, quoteName(grant));
    if (url === undefined) {
        const statements = [...migrationSql(schema, 0), ...(rls ? rlsSql(schema) : []), ...grants];
        return { store, schema, version, statements, ran: false };
    }
    const where = { schema, rls, where: store };
    const driver = await openDriver(settings);
    try {
        if (dryRun) {
            const statements = [...pending(await look(driver, schema), where), ...grants];
            return { store, schema, version, statements, ran: false };
        }
        const statements = [...(await migrate(driver, where)), ...grants];
        for (const statement of grants)
            await driver.query(statement);
        return { store, schema, version, statements, ran: true };
    }
    catch (error) {
        throw storeError(error, { where: store, schema });
    }
    finally {
        await driver.close().catch(() => { });
    }
}
//# sourceMappingURL=postgres-migrator.js.map