import { notifications } from "@mantine/notifications";
import { errorText } from "./errorText";
import { Message } from "./Message";

/** Shows the error of an action that has no place for it on the page, until the user closes it. */
export function notifyError(title: string, error: unknown): void {
  notifications.show({ color: "red", autoClose: false, title, message: <Message text={errorText(error)} /> });
}
