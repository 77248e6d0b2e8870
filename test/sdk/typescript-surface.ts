/** What the TypeScript SDK shows, from its sources: of each class its members, of each method its arguments. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst } from "vitest/node";
import * as contract from "../../sdk/contract/index.ts";

/** A node of the syntax tree, as far as it is looked at. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

/** Arguments of a method: names of its own, and of the objects that it takes the fields. null: no method. */
export type Members = Record<string, string[] | null>;

const folder = join(import.meta.dirname, "../../sdk/src");

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value;
const nodes = (value: unknown): Node[] => (Array.isArray(value) ? value.filter(isNode) : []);
const node = (value: unknown): Node | null => (isNode(value) ? value : null);
const nameOf = (value: unknown): string => {
  const found = node(value);
  return String(found?.["name"] ?? found?.["value"] ?? "");
};

interface Declared {
  readonly of: Node;
  readonly text: string;
}

/** Classes, interfaces, types and functions of all sources, by name. */
function declarations(): Map<string, Declared> {
  const found = new Map<string, Declared>();
  for (const file of readdirSync(folder)) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const statement of nodes((parseAst(text, { lang: "ts" }) as unknown as Node)["body"])) {
      const of = node(statement["declaration"]) ?? statement;
      if (/^(ClassDeclaration|TSInterfaceDeclaration|TSTypeAliasDeclaration|FunctionDeclaration)$/.test(of.type))
        found.set(nameOf(of["id"]), { of, text });
    }
  }
  return found;
}

const declared = declarations();

/** Names that the package gives away, types left out. */
export function exported(): string[] {
  const text = readFileSync(join(folder, "index.ts"), "utf8");
  const names: string[] = [];
  for (const statement of nodes((parseAst(text, { lang: "ts" }) as unknown as Node)["body"])) {
    if (statement.type !== "ExportNamedDeclaration" || statement["exportKind"] === "type") continue;
    for (const one of nodes(statement["specifiers"])) names.push(nameOf(one["exported"]));
  }
  return names;
}

/** The fields of an object type; null for what is none. */
function fieldsOf(type: Node | null): string[] | null {
  if (type === null) return null;
  if (type.type === "TSTypeLiteral") return keysOf(nodes(type["members"]));
  if (type.type === "TSIntersectionType") {
    const parts = nodes(type["types"]).map(fieldsOf);
    return parts.every((part) => part !== null) ? parts.flat() : null;
  }
  if (
    type.type !== "TSTypeReference" &&
    type.type !== "TSInterfaceHeritage" &&
    type.type !== "TSExpressionWithTypeArguments"
  )
    return null;
  const name = nameOf(type["typeName"] ?? type["expression"]);
  const given = nodes(node(type["typeArguments"])?.["params"]);
  if (name === "Omit" || name === "Pick") {
    const picked = literals(given[1] ?? null);
    return fieldsOf(given[0] ?? null)?.filter((field) => picked.includes(field) === (name === "Pick")) ?? null;
  }
  const found = declared.get(name)?.of;
  if (found?.type === "TSTypeAliasDeclaration") return fieldsOf(node(found["typeAnnotation"]));
  if (found?.type === "TSInterfaceDeclaration") {
    const members = nodes(node(found["body"])?.["body"]);
    if (members.some((one) => one.type === "TSMethodSignature" || one.type === "TSCallSignatureDeclaration"))
      return null;
    return [...nodes(found["extends"]).flatMap((one) => fieldsOf(one) ?? []), ...(keysOf(members) ?? [])];
  }
  return found === undefined ? fieldsOfSchema(name) : null;
}

function keysOf(members: readonly Node[]): string[] | null {
  if (members.some((one) => one.type === "TSIndexSignature")) return null;
  return members.map((one) => nameOf(one["key"]));
}

function literals(type: Node | null): string[] {
  if (type?.type === "TSUnionType") return nodes(type["types"]).flatMap(literals);
  return type?.type === "TSLiteralType" ? [nameOf(type["literal"])] : [];
}

/** What the wire's contract says of a type of that name. */
function fieldsOfSchema(name: string): string[] | null {
  const schema: unknown = (contract as Record<string, unknown>)[name];
  if (typeof schema !== "object" || schema === null || !("shape" in schema)) return null;
  return Object.keys(schema.shape as object);
}

function argumentsOf(method: Node): string[] {
  return nodes(method["params"]).flatMap((given) => {
    const param = given.type === "AssignmentPattern" ? (node(given["left"]) ?? given) : given;
    const type = node(node(param["typeAnnotation"])?.["typeAnnotation"]);
    return fieldsOf(type) ?? [nameOf(param["argument"] ?? param)];
  });
}

/** Public members of a class or interface; null for a name that is neither. */
export function membersOf(name: string): Members | null {
  const found = declared.get(name);
  if (!found || !/^(ClassDeclaration|TSInterfaceDeclaration)$/.test(found.of.type)) return null;
  const members: Members = { ...membersOf(nameOf(found.of["superClass"])) };
  let before = found.of.start;
  for (const member of nodes(node(found.of["body"])?.["body"])) {
    const comment = found.text.slice(before, member.start);
    before = member.end;
    const key = node(member["key"]);
    if (member["kind"] === "constructor") {
      members["constructor"] = argumentsOf(node(member["value"]) ?? member);
      continue;
    }
    const isHidden = key?.type === "PrivateIdentifier" || /private|protected/.test(String(member["accessibility"]));
    if (key === null || isHidden || member["computed"] === true || comment.includes("@internal")) continue;
    const isMethod = /MethodDefinition|TSMethodSignature/.test(member.type) && member["kind"] === "method";
    const signature = node(member["value"]) ?? member;
    // Of a method with overloads the last one says it all.
    members[nameOf(key)] = isMethod ? argumentsOf(signature) : null;
  }
  return members;
}

export function functionArguments(name: string): string[] | null {
  const found = declared.get(name)?.of;
  return found?.type === "FunctionDeclaration" ? argumentsOf(found) : null;
}

/** Classes that are reached from those that the package gives away. */
export function reachable(): string[] {
  const names = new Set(exported().filter((name) => declared.get(name)?.of.type === "ClassDeclaration"));
  for (const name of names) {
    const found = declared.get(name);
    const base = nameOf(found?.of["superClass"]);
    for (const one of [found?.of, declared.get(base)?.of])
      for (const member of nodes(node(one?.["body"])?.["body"])) {
        const type = nameOf(node(node(node(member["typeAnnotation"])?.["typeAnnotation"])?.["typeName"]));
        if (member["accessibility"] !== "private" && /^(Mcp|McpServers|Queues)$/.test(type)) names.add(type);
        else if (declared.get(type)?.of.type === "ClassDeclaration" && exported().includes(type)) names.add(type);
      }
  }
  return [...names];
}
