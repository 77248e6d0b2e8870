/** Short words on what was done; read out by screen readers, gone after a while. */
import { useEffect, useState } from "preact/hooks";

interface Note {
  readonly id: number;
  readonly text: string;
  readonly action?: { readonly label: string; readonly act: () => void };
}

const SHOWN_MS = 9000;
let count = 0;
let show: (note: Note) => void = () => undefined;

/** @param action one thing that can be done about it, such as to take it back */
export function say(text: string, action?: Note["action"]): void {
  show({ id: ++count, text, ...(action ? { action } : {}) });
}

export function Notes() {
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const drop = (id: number) => setNotes((all) => all.filter((note) => note.id !== id));
  useEffect(() => {
    show = (note) => {
      setNotes((all) => [...all.slice(-2), note]);
      setTimeout(() => drop(note.id), SHOWN_MS);
    };
  }, []);
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.map(({ id, text, action }) => (
        <div class="note" key={id}>
          <span>{text}</span>
          {action && (
            <button
              type="button"
              class="link"
              onClick={() => {
                drop(id);
                action.act();
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" class="icon" aria-label="Dismiss" onClick={() => drop(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
