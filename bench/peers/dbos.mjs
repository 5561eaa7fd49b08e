// A DBOS workflow of one step, named by its key: the durable execution that a user would otherwise reach for.
import { DBOS } from "@dbos-inc/dbos-sdk";

export async function dbosStep(systemDatabaseUrl, { connections, run }) {
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl,
    systemDatabasePoolSize: connections,
    runAdminServer: false,
    logLevel: "error",
  });
  const workflow = DBOS.registerWorkflow(() => DBOS.runStep(run, { name: "send" }), { name: "once" });
  await DBOS.launch();
  return {
    once: (key) => DBOS.withNextWorkflowID(key, () => workflow()),
    close: () => DBOS.shutdown({ deregister: true }),
  };
}
