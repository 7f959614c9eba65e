import { MantineProvider } from "@mantine/core";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import type { ReactElement } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import { plainMessage } from "../lib/messages";
import { ConfirmButton } from "./ConfirmButton";
import { CopyButton } from "./CopyButton";
import { ErrorNotice } from "./ErrorNotice";
import { Message } from "./Message";

afterEach(cleanup);

function renderElement(element: ReactElement): void {
  render(<MantineProvider env="test">{element}</MantineProvider>);
}

describe("confirmation of an irreversible action", () => {
  it("is not confirmed by the key that opened it", async () => {
    renderElement(
      <ConfirmButton label="Revoke" title="Revoke it?" action={vi.fn()}>
        It stops working.
      </ConfirmButton>,
    );
    fireEvent.click(screen.getByRole("button", { name: "Revoke" }));
    const cancel = await screen.findByRole("button", { name: "Cancel" });
    expect(cancel.hasAttribute("data-autofocus")).toBe(true);
    // A prevented default keeps the browser from activating the button.
    expect(fireEvent.keyDown(cancel, { key: "Enter", repeat: true })).toBe(false);
    expect(fireEvent.keyDown(cancel, { key: "Enter" })).toBe(true);
  });

  it("runs the action once, however often Enter is pressed", async () => {
    const action = vi.fn(() => new Promise(() => {}));
    renderElement(
      <ConfirmButton label="Delete" title="Delete it?" action={action} confirmationText="support">
        It is gone.
      </ConfirmButton>,
    );
    fireEvent.click(screen.getByRole("button", { name: "Delete" }));
    const name = await screen.findByRole("textbox");
    fireEvent.keyDown(name, { key: "Enter" });
    expect(action).not.toHaveBeenCalled();
    fireEvent.change(name, { target: { value: "support" } });
    fireEvent.keyDown(name, { key: "Enter", repeat: true });
    fireEvent.keyDown(name, { key: "Enter" });
    fireEvent.keyDown(name, { key: "Enter" });
    expect(action).toHaveBeenCalledOnce();
  });
});

describe("a message of the service", () => {
  it("shows text in backticks as code, except in quoted values", () => {
    const { container } = render(
      <MantineProvider env="test">
        <Message text={'no column `a`; `b` is "`c`"'} />
      </MantineProvider>,
    );
    expect(container.querySelector("bdi")?.textContent).toBe("no column ");
    expect([...container.querySelectorAll("code")].map(({ textContent }) => textContent)).toEqual(["a", "b"]);
    expect(plainMessage('no column `a`; `b` is "`c`"')).toBe('no column a; b is "`c`"');
  });
});

describe("invisible characters in text from spans are shown by name", () => {
  it("in error messages", () => {
    const problem = {
      type: "about:blank",
      title: "Invalid",
      status: 422,
      code: "invalid",
      request_id: "",
      retry: "never" as const,
      detail: "no key \u202ea",
      errors: [{ pointer: "/\u202eb", code: "unknown", detail: "no \u202ec", hint: "take \u202ed" }],
    };
    renderElement(<ErrorNotice error={new ApiError(422, problem)} />);
    const text = screen.getByRole("alert").textContent;
    expect(text).not.toContain("\u202e");
    expect(text?.match(/U\+202E/g)).toHaveLength(4);
  });

  it("in the names of buttons", () => {
    renderElement(<CopyButton value="x" name={"value of \u202ea"} />);
    expect(screen.getByRole("button", { name: "Copy value of ⟨U+202E⟩a" })).toBeDefined();
  });
});
