// A folder of files, a search and a job, and a list of what was run.

export class Toolbox {
  runs = [];
  #progress = 0;
  #files = Object.fromEntries([..."abcdefgh"].map((name) => [`${name}.txt`, `This is file ${name}.\nIts owner is Ada.`]));

  run(name, given) {
    this.runs.push(name);
    switch (name) {
      case "read_file":
        return this.#files[given.path] ?? `There is no file ${given.path}.`;
      case "write_file":
        this.#files[given.path] = given.text;
        return `${given.text.length} characters were written.`;
      case "search":
        return "a.txt, b.txt";
      case "job_status":
        this.#progress += 7;
        return `Job ${given.job}: ${this.#progress} % done.`;
      default:
        return `Error: there is no tool ${name}.`;
    }
  }
}

// The name, description and JSON schema of each tool.
export const TOOLS = [
  tool("read_file", "Read a file of the project.", "path"),
  tool("write_file", "Write a file of the project.", "path", "text"),
  tool("search", "Search the files of the project for a text.", "query"),
  tool("job_status", "Ask how far a job is.", "job"),
];

function tool(name, description, ...required) {
  const properties = Object.fromEntries(required.map((argument) => [argument, { type: "string" }]));
  return { name, description, schema: { type: "object", properties, required, additionalProperties: false } };
}

export const SYSTEM = "You work with the files of a project.";
