import * as vscode from "vscode";

export interface Server {
  url: string;
  restUrl: string;
}

/** The server's addresses. A workspace cannot set them: it could have the token sent elsewhere. */
export function server(): Server {
  const settings = vscode.workspace.getConfiguration("codelab");
  return { url: settings.get<string>("url", "").trim(), restUrl: settings.get<string>("restUrl", "").trim() };
}

/** The tokens, in the editor's store of secrets: each for the server that the user gave it for. */
export class Tokens {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  async of(url: string): Promise<string> {
    return (await this.#secrets.get(keyOf(url))) ?? "";
  }

  /** Ask the user for the token. Gives whether there is another one. */
  async ask({ url }: Server): Promise<boolean> {
    const prompt = `The token for ${url}, as its operator gave it to you. Empty: none.`;
    const token = await vscode.window.showInputBox({ title: "CodeLab", prompt, password: true, ignoreFocusOut: true });
    if (token === undefined) return false;
    if (token.trim()) await this.#secrets.store(keyOf(url), token.trim());
    else await this.#secrets.delete(keyOf(url));
    return true;
  }
}

function keyOf(url: string): string {
  return `token ${url}`;
}
