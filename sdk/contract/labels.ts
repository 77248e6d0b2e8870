/** Labels: what a caller notes of a thing, to find it by. */
import { z } from "zod";

const LABELS_MAX = 32;

const LabelKey = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/, "a label key is 1-63 of A-Z a-z 0-9 . _ / -");
const LabelValue = z.string().max(256, "a label value has at most 256 characters");
export const Labels = z
  .record(LabelKey, LabelValue)
  .refine((labels) => Object.keys(labels).length <= LABELS_MAX, `at most ${LABELS_MAX} labels`);
