/** Files in the machine: folders, what a file holds, downloads and uploads. Looking inside needs it awake, so it is asked for. */
import { useState } from "preact/hooks";
import type { FileEntry, SandboxInfo } from "../../../sdk/src/index.ts";
import { fileUrl, handleOf } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Empty, Loading, Section, Time } from "../parts/bits.tsx";
import { FormDialog, InfoDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { bytes } from "../text.ts";

const HOME = "/workspace";
/** A longer file is only downloaded, bytes. */
const SHOWN_MAX = 262_144;

export function Files({ of }: { of: SandboxInfo }) {
  const [asked, setAsked] = useState(false);
  if (of.state !== "running" && !asked)
    return (
      <Section title="Files">
        <Empty title="It sleeps, and so do its files">
          <p>To look at them wakes it.</p>
          <button type="button" class="primary" onClick={() => setAsked(true)} disabled={of.state !== "paused"}>
            Wake it and look
          </button>
        </Empty>
      </Section>
    );
  return <Folder of={of} />;
}

function Folder({ of }: { of: SandboxInfo }) {
  const { files } = handleOf(of);
  const [path, setPath] = useState(HOME);
  const [open, setOpen] = useState<FileEntry | null>(null);
  const [removing, setRemoving] = useState<FileEntry | null>(null);
  const [making, setMaking] = useState(false);
  const [over, setOver] = useState(false);
  const list = useRead(`${of.id} ${path}`, (signal) => files.list(path, { signal }));
  const doing = useDoing();
  const upload = (given: FileList | null) => {
    const all = [...(given ?? [])];
    if (all.length === 0) return;
    void doing.run("Uploading", async () => {
      for (const file of all) await files.writeStream(join(path, file.name), file.stream());
      list.reload();
      return all.length === 1 ? `${all[0]?.name} was uploaded` : `${all.length} files were uploaded`;
    });
  };
  const columns: Column<FileEntry>[] = [
    {
      title: "Name",
      bare: true,
      cell: (entry) => (
        <button
          type="button"
          class={`link name entry ${entry.type}`}
          onClick={() => (entry.type === "directory" ? setPath(entry.path) : setOpen(entry))}
        >
          <span aria-hidden="true">{entry.type === "directory" ? "▸ " : ""}</span>
          {entry.name}
          {entry.type === "directory" && <span class="unseen"> (folder)</span>}
        </button>
      ),
    },
    { title: "Size", numeric: true, cell: ({ type, size }) => (type === "file" ? bytes(size) : "") },
    { title: "Changed", cell: ({ modifiedAt }) => <Time at={modifiedAt} /> },
    { title: "Mode", cell: ({ mode, owner }) => <code>{`${mode}${owner === undefined ? "" : ` ${owner}`}`}</code> },
    {
      title: "Actions",
      cell: (entry) => (
        <>
          {entry.type === "file" && (
            <a class="button quiet-button" href={fileUrl(of.id, entry.path)} download={entry.name}>
              Download<span class="unseen"> {entry.name}</span>
            </a>
          )}
          <button type="button" class="quiet-button dangerous" onClick={() => setRemoving(entry)}>
            Delete<span class="unseen"> {entry.name}</span>
          </button>
        </>
      ),
    },
  ];
  const rows = list.data?.toSorted(
    (a, b) => Number(b.type === "directory") - Number(a.type === "directory") || a.name.localeCompare(b.name),
  );
  return (
    <Section
      title="Files"
      actions={
        <>
          <button type="button" onClick={() => setMaking(true)}>
            New folder
          </button>
          <label class="button">
            {doing.busy ?? "Upload"}
            <input
              type="file"
              multiple
              class="unseen"
              onChange={(event) => {
                upload(event.currentTarget.files);
                event.currentTarget.value = "";
              }}
            />
          </label>
        </>
      }
    >
      <nav class="path" aria-label="Folder">
        {partsOf(path).map(({ name, path: target }, at, all) => (
          <span key={target}>
            {at > 1 && <span aria-hidden="true">/</span>}
            <button
              type="button"
              class="link"
              aria-current={at === all.length - 1 ? "location" : undefined}
              onClick={() => setPath(target)}
            >
              {name}
            </button>
          </span>
        ))}
      </nav>
      <Fault of={list.fault} />
      <Fault of={doing.fault} />
      <div
        class={`drop ${over ? "over" : ""}`}
        onDragOver={(event) => (event.preventDefault(), setOver(true))}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          upload(event.dataTransfer?.files ?? null);
        }}
      >
        {list.data === null && list.loading && <Loading what={of.state === "running" ? "Loading" : "Waking it"} />}
        {rows?.length === 0 && (
          <Empty title="An empty folder">
            <p>Files can be dropped here.</p>
          </Empty>
        )}
        {rows !== undefined && rows.length > 0 && (
          <Table label={`Files in ${path}`} columns={columns} rows={rows} keyOf={({ path: key }) => key} />
        )}
      </div>
      {open && <FileContent of={of} entry={open} onClose={() => setOpen(null)} />}
      {making && (
        <FormDialog
          title="New folder"
          submit="Make it"
          busy="Making"
          onClose={() => setMaking(false)}
          onSubmit={async (form) => {
            const name = text(form, "name") ?? "";
            await files.mkdir(join(path, name));
            list.reload();
            return `The folder ${name} was made`;
          }}
        >
          <label>
            Name <input name="name" required spellcheck={false} autofocus />
          </label>
        </FormDialog>
      )}
      {removing && (
        <FormDialog
          title={`Delete ${removing.name}?`}
          submit="Delete"
          busy="Deleting"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await files.remove(removing.path, { recursive: removing.type === "directory" });
            list.reload();
            return `${removing.path} was deleted`;
          }}
        >
          <p>
            {removing.type === "directory"
              ? "The folder and everything in it are gone for good."
              : `The file, ${bytes(removing.size)}, is gone for good.`}
          </p>
          <p>
            <code class="breaks">{removing.path}</code>
          </p>
        </FormDialog>
      )}
    </Section>
  );
}

function FileContent({ of, entry, onClose }: { of: SandboxInfo; entry: FileEntry; onClose: () => void }) {
  const isLong = entry.size > SHOWN_MAX;
  const content = useRead(isLong ? null : `${of.id} ${entry.path}`, (signal) =>
    handleOf(of).files.read(entry.path, { signal }).then(shownText),
  );
  return (
    <InfoDialog title={entry.name} onClose={onClose}>
      <p class="quiet">
        <code class="breaks">{entry.path}</code> · {bytes(entry.size)} ·{" "}
        <a href={fileUrl(of.id, entry.path)} download={entry.name}>
          Download
        </a>
      </p>
      <Fault of={content.fault} />
      {content.loading && <Loading />}
      {isLong && <p>It is too long to be shown here.</p>}
      {content.data?.kind === "binary" && <p>It is no text, and can only be downloaded.</p>}
      {content.data?.kind === "text" && (
        <pre class="content" tabIndex={0} aria-label={`Content of ${entry.name}`}>
          {content.data.text}
        </pre>
      )}
    </InfoDialog>
  );
}

function shownText(data: Uint8Array): { kind: "binary" } | { kind: "text"; text: string } {
  try {
    const read = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return read.includes("\0") ? { kind: "binary" } : { kind: "text", text: read };
  } catch {
    return { kind: "binary" };
  }
}

const join = (folder: string, name: string): string => `${folder === "/" ? "" : folder}/${name}`;

function partsOf(path: string): { name: string; path: string }[] {
  const names = path.split("/").filter((name) => name !== "");
  return [
    { name: "/", path: "/" },
    ...names.map((name, at) => ({ name, path: `/${names.slice(0, at + 1).join("/")}` })),
  ];
}
