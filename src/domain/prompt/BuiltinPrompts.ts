import type { PromptArgument, PromptText } from "./Prompt.ts"

const builtin = (
  name: string,
  title: string,
  description: string,
  given: ReadonlyArray<PromptArgument>,
  text: string
): PromptText => ({
  prompt: { name, title, description, arguments: given, source: "builtin" },
  text,
  resource: undefined
})

/** What every workspace has. */
export const builtinPrompts: ReadonlyArray<PromptText> = [
  builtin(
    "summarize",
    "Summarize",
    "Sums a text up in a few points.",
    [{ name: "text", description: "What to sum up.", required: true }],
    "Sum up the following text. Begin with one sentence that says what it is about, then give its main points as a " +
      "short list, in the order of their weight. Add nothing that is not in it, and answer in its language.\n\n{{text}}"
  ),
  builtin(
    "explain",
    "Explain",
    "Explains something so that its reader can use it.",
    [
      { name: "topic", description: "What to explain.", required: true },
      { name: "audience", description: "Who reads it, and what they know already.", required: false }
    ],
    "Explain this: {{topic}}\n\nReader: {{audience}}\n\nBegin with what it is for, then how it works, then one " +
      "worked example. Explain every term at its first use that the reader may not know, and say where people " +
      "usually go wrong."
  ),
  builtin(
    "review-code",
    "Review code",
    "Looks for mistakes in code, and says how to mend them.",
    [
      { name: "code", description: "The code, or a difference between two versions of it.", required: true },
      { name: "focus", description: "What to look at above all, such as security.", required: false }
    ],
    "Review the following code. {{focus}}\n\nFor each finding: where it is, what goes wrong and for which input, how " +
      "grave it is, and the smallest change that mends it. Mistakes first, then what will be hard to maintain. Leave " +
      "out matters of taste. If there is nothing to find, say so.\n\n```\n{{code}}\n```"
  ),
  builtin(
    "translate",
    "Translate",
    "Translates a text and keeps its tone.",
    [
      { name: "language", description: "The language to translate into.", required: true },
      { name: "text", description: "The text.", required: true }
    ],
    "Translate the following text into {{language}}. Keep its tone, its formatting, names and code as they are. " +
      "Answer with the translation alone.\n\n{{text}}"
  ),
  builtin(
    "plan",
    "Plan",
    "Breaks a goal down into steps that can be checked.",
    [{ name: "goal", description: "What is to be reached, and what limits there are.", required: true }],
    "Make a plan for this goal: {{goal}}\n\nGive the steps in their order. For each: what is done, what it needs from " +
      "the steps before, and how to tell that it is finished. Name what is uncertain, and put the step that finds it " +
      "out as early as possible. Ask at most three questions, only such as would change the plan."
  )
]
