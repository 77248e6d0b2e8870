/**
 * `Symbol.asyncDispose` where the runtime has none. Imported for its effect before any class uses the symbol, so that
 * code compiled down from `await using` finds the method under the same symbol.
 */
if (!Object.hasOwn(Symbol, "asyncDispose")) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol.for("Symbol.asyncDispose") });
}

export {};
