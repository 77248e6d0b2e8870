/** Making a sandbox. What is left open has its default. */
import { rouse } from "../api.ts";
import { feed } from "../feed.ts";
import { Field } from "../parts/bits.tsx";
import { FormDialog, number, text } from "../parts/dialog.tsx";
import { navigate, toSandbox } from "../router.tsx";
import { defaults, limits } from "../../../sdk/contract/sandbox.ts";
import { parseLabels } from "../text.ts";

export function NewSandbox({ onClose }: { onClose: () => void }) {
  const make = async (form: FormData) => {
    const labels = parseLabels(text(form, "labels") ?? "");
    const name = text(form, "name");
    const image = text(form, "image");
    const vcpu = number(form, "vcpu");
    const memoryMiB = number(form, "memoryMiB");
    const idlePauseSeconds = number(form, "idlePauseSeconds");
    const made = await rouse.sandboxes.create({
      ...(name === undefined ? {} : { name }),
      ...(image === undefined ? {} : { image }),
      ...(vcpu === undefined ? {} : { vcpu }),
      ...(memoryMiB === undefined ? {} : { memoryMiB }),
      ...(idlePauseSeconds === undefined ? {} : { idlePauseSeconds }),
      ...(Object.keys(labels).length === 0 ? {} : { labels }),
      wait: false,
    });
    feed.put(made.info);
    navigate(toSandbox(made));
    return `${made.name ?? made.id} is being made`;
  };
  return (
    <FormDialog title="New sandbox" submit="Make it" busy="Making" onSubmit={make} onClose={onClose}>
      <Field
        label="Name"
        hint="It is the machine's address: my-agent is reached at my-agent.<domain>. Random if left open."
      >
        {(ids) => <input {...ids} name="name" maxLength={128} spellcheck={false} placeholder="my-agent" autofocus />}
      </Field>
      <Field label="Labels" hint="To find it by: key=value, with spaces between.">
        {(ids) => <input {...ids} name="labels" spellcheck={false} placeholder="team=web stage=prod" />}
      </Field>
      <details>
        <summary>Machine</summary>
        <div class="field-row">
          <Field label="Image">
            {(ids) => <input {...ids} name="image" spellcheck={false} placeholder={defaults.image} />}
          </Field>
          <Field label="vCPU">
            {(ids) => (
              <input
                {...ids}
                name="vcpu"
                type="number"
                min={1}
                max={limits.vcpuMax}
                placeholder={String(defaults.vcpu)}
              />
            )}
          </Field>
          <Field label="Memory, MiB">
            {(ids) => (
              <input
                {...ids}
                name="memoryMiB"
                type="number"
                min={limits.memoryMiBMin}
                max={limits.memoryMiBMax}
                placeholder={String(defaults.memoryMiB)}
              />
            )}
          </Field>
        </div>
        <Field
          label="Falls asleep after, seconds"
          hint="Without requests, commands and work of its CPU. 0: never by itself."
        >
          {(ids) => (
            <input
              {...ids}
              name="idlePauseSeconds"
              type="number"
              min={0}
              max={limits.idlePauseSecondsMax}
              placeholder={String(defaults.idlePauseSeconds)}
            />
          )}
        </Field>
      </details>
    </FormDialog>
  );
}
