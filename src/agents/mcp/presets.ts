/**
 * Configs for widely used MCP servers: which tools only read, though their server does not say so, and what names the intent of
 * those that create something. Tools that are not named keep the default. `nevertwice mcp --preset` uses one; `mcp init` writes it
 * into the file it proposes, with its reasons. test/agents/mcp-presets.test.ts holds the names against the servers.
 */
import { configError } from "../../core/errors.ts";
import type { ProxyConfig, ProxyToolConfig } from "./config.ts";

export interface PresetTool {
  readonly config: ProxyToolConfig;
  readonly why: string;
}

export interface Preset {
  readonly name: string;
  /** The servers that it was written for. */
  readonly servers: string;
  /** A server with all of these tools is taken for one of them. It may have others. */
  readonly known: readonly string[];
  /** So is one that has this tool alone, whose name is a common one. */
  readonly alone?: string;
  readonly tools: Readonly<Record<string, PresetTool>>;
}

function readers(why: string, names: string): Record<string, PresetTool> {
  return Object.fromEntries(names.split(" ").map((name) => [name, { config: { readOnly: true }, why }]));
}

const READS = "only reads";

const filesystem: Preset = {
  name: "filesystem",
  servers: "@modelcontextprotocol/server-filesystem",
  known: ["read_multiple_files", "write_file", "edit_file", "directory_tree"],
  tools: readers(
    READS,
    "read_file read_text_file read_media_file read_multiple_files list_directory list_directory_with_sizes directory_tree search_files get_file_info list_allowed_directories",
  ),
};

const memory: Preset = {
  name: "memory",
  servers: "@modelcontextprotocol/server-memory",
  known: ["create_entities", "create_relations", "add_observations", "read_graph"],
  tools: readers(READS, "read_graph search_nodes open_nodes"),
};

const github: Preset = {
  name: "github",
  servers: "@modelcontextprotocol/server-github",
  known: ["create_issue", "create_pull_request", "merge_pull_request", "get_file_contents"],
  tools: {
    create_issue: {
      config: {
        key: ["owner", "repo", "title"],
        free: ["body", "assignees", "milestone", "labels"],
        keep: "1d",
      },
      why: "an issue is named by its repository and title; a model words the rest anew",
    },
    add_issue_comment: {
      config: { key: ["owner", "repo", "issue_number", "body"], keep: "1h" },
      why: "the same comment on the same issue, within an hour",
    },
    create_pull_request: {
      config: {
        key: ["owner", "repo", "head", "base"],
        free: ["title", "body", "draft", "maintainer_can_modify"],
        keep: "1h",
      },
      why: "GitHub has one open pull request for two branches; after an hour it may have been closed",
    },
    create_pull_request_review: {
      config: { key: ["owner", "repo", "pull_number", "event", "body"], free: ["commit_id", "comments"], keep: "1h" },
      why: "the same review of the same pull request, within an hour",
    },
    merge_pull_request: {
      config: {
        key: ["owner", "repo", "pull_number"],
        free: ["commit_title", "commit_message", "merge_method"],
        keep: "1h",
      },
      why: "a pull request is merged once",
    },
    create_repository: {
      config: { key: ["name"], free: ["description", "private", "autoInit"], keep: "1h" },
      why: "a repository is named by its name",
    },
    ...readers(
      READS,
      "search_repositories get_file_contents list_commits list_issues search_code search_issues search_users get_issue get_pull_request list_pull_requests get_pull_request_files get_pull_request_status get_pull_request_comments get_pull_request_reviews",
    ),
  },
};

const slack: Preset = {
  name: "slack",
  servers: "@modelcontextprotocol/server-slack",
  known: ["slack_post_message", "slack_reply_to_thread", "slack_get_channel_history"],
  tools: {
    slack_post_message: {
      config: { key: ["channel_id", "text"], keep: "1h" },
      why: "the same text in the same channel, within an hour",
    },
    slack_reply_to_thread: {
      config: { key: ["channel_id", "thread_ts", "text"], keep: "1h" },
      why: "the same reply in the same thread, within an hour",
    },
    ...readers(
      READS,
      "slack_list_channels slack_get_channel_history slack_get_thread_replies slack_get_users slack_get_user_profile",
    ),
  },
};

const playwright: Preset = {
  name: "playwright",
  servers: "@playwright/mcp",
  known: ["browser_navigate", "browser_click", "browser_snapshot"],
  // The others act on a page, where the same click is often meant twice: they keep the default.
  tools: readers(
    "only looks at the page",
    "browser_console_messages browser_find browser_network_requests browser_network_request browser_take_screenshot browser_snapshot browser_wait_for",
  ),
};

const postgres: Preset = {
  name: "postgres",
  servers: "@modelcontextprotocol/server-postgres",
  known: [],
  alone: "query",
  tools: readers("runs in a read-only transaction", "query"),
};

const fetch: Preset = {
  name: "fetch",
  servers: "mcp-fetch-server and the reference server fetch",
  known: ["fetch_html", "fetch_json"],
  alone: "fetch",
  tools: readers(
    "sends GET requests",
    "fetch fetch_html fetch_markdown fetch_txt fetch_json fetch_readable fetch_youtube_transcript",
  ),
};

export const PRESETS: readonly Preset[] = [filesystem, memory, github, slack, playwright, postgres, fetch];

/** The preset of a server by the names of its tools; null: none, or more than one. */
export function presetOf(tools: readonly string[]): Preset | null {
  const fitting = PRESETS.filter(({ known, alone }) =>
    tools.length === 1 ? tools[0] === alone : known.length > 0 && known.every((name) => tools.includes(name)),
  );
  return fitting.length === 1 ? (fitting[0] as Preset) : null;
}

export function presetNamed(wanted: string, where: string): Preset {
  const preset = PRESETS.find(({ name }) => name === wanted);
  if (preset !== undefined) return preset;
  const names = PRESETS.map(({ name }) => name).join(", ");
  throw configError(`${where}: there is no preset ${JSON.stringify(wanted)}. The presets are: ${names}.`);
}

/** The config with its preset, where it names one. What it says of a tool itself wins, whole. */
export function withPreset(config: ProxyConfig, where: string): ProxyConfig {
  if (config.preset === undefined) return config;
  const preset = presetNamed(config.preset, where);
  const tools = Object.fromEntries(Object.entries(preset.tools).map(([name, tool]) => [name, tool.config]));
  const presetTools = Object.keys(tools).filter((name) => !Object.hasOwn(config.tools ?? {}, name));
  return { ...config, tools: { ...tools, ...config.tools }, presetTools };
}
