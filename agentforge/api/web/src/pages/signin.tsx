// Where the server wants a token. It stays in this tab and is sent as a header, never in an address.

import { useState } from "preact/hooks";
import { signIn } from "../api";

export function SignIn() {
  const [wrong, setWrong] = useState("");
  const enter = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    try {
      await signIn(String(form.get("token") ?? "").trim());
      location.reload();
    } catch (error) {
      setWrong((error as Error).message);
    }
  };
  return (
    <form class="panel pad signin" onSubmit={(event) => void enter(event)}>
      <h1>This server asks for a token</h1>
      <p class="quiet">It was shown once, when it was made with --add-token.</p>
      <label for="token">Token</label>
      <input class="field mono" id="token" name="token" type="password" required autoComplete="current-password" />
      {wrong && (
        <p class="tone-bad" role="alert">
          {wrong}
        </p>
      )}
      <button type="submit" class="button primary">
        Go on
      </button>
    </form>
  );
}
