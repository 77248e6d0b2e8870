/** Imported before all else: the page may run no code that was made from text, so checks of answers are not compiled. */
import { config } from "zod";

config({ jitless: true });
