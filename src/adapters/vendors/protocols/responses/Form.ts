/**
 * Who serves this wire. `platform`: the documented API, paid by key. `subscription`: the server behind chat
 * subscriptions, which refuses many parameters by name, messages of the role `system`, and requests without
 * `instructions`.
 */
export type Form = "platform" | "subscription"
