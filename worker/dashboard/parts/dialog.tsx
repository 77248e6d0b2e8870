/** Dialogs: a form in one, and the question before something is lost. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Fault } from "./fault.tsx";
import { useDoing } from "../data.ts";

interface DialogProps {
  readonly title: string;
  /** Resolves to what people are told; a fault stays in the dialog. */
  readonly onSubmit: (form: FormData) => Promise<string | void>;
  readonly onClose: () => void;
  readonly submit: string;
  /** What is under way while it is sent, such as `Deleting`. */
  readonly busy: string;
  readonly danger?: boolean;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}

export function FormDialog({ title, onSubmit, onClose, submit, busy, danger, wide, children }: DialogProps) {
  const ref = useModal(onClose);
  const id = useId();
  const doing = useDoing();
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    if (await doing.run(busy, () => onSubmit(form))) ref.current?.close();
  };
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-labelledby={id} role={danger ? "alertdialog" : "dialog"}>
      <form onSubmit={send} autocomplete="off">
        <h2 id={id}>{title}</h2>
        <div class="dialog-body">{children}</div>
        <Fault of={doing.fault} />
        <div class="dialog-actions">
          <button type="button" onClick={() => ref.current?.close()}>
            Cancel
          </button>
          <button class={danger ? "danger" : "primary"} disabled={doing.busy !== null}>
            {doing.busy === null ? submit : `${busy} …`}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Something that is shown once, until it is put away. */
export function InfoDialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const ref = useModal(onClose);
  const id = useId();
  return (
    <dialog ref={ref} aria-labelledby={id} class="wide">
      <h2 id={id}>{title}</h2>
      <div class="dialog-body">{children}</div>
      <div class="dialog-actions">
        <button type="button" class="primary" onClick={() => ref.current?.close()}>
          Done
        </button>
      </div>
    </dialog>
  );
}

/** Open from the first; told when it is closed, by whatever. Focus goes back to where it was. */
function useModal(onClose: () => void) {
  const ref = useRef<HTMLDialogElement>(null);
  const told = useRef(onClose);
  told.current = onClose;
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    const closed = () => told.current();
    dialog.addEventListener("close", closed);
    dialog.showModal();
    return () => dialog.removeEventListener("close", closed);
  }, []);
  return ref;
}

/** A text field's value; undefined where it is empty, so that the default holds. */
export function text(form: FormData, name: string): string | undefined {
  const value = form.get(name);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

export function number(form: FormData, name: string): number | undefined {
  const value = text(form, name);
  return value === undefined ? undefined : Number(value);
}
