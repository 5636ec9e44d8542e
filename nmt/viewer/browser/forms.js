// Form elements. Options that stay the same are not replaced, so they keep the focus.

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Gives a page a heading, which only screen readers present, and returns an element below it.
export function headed(main, title) {
  const below = make("div");
  main.append(make("h1", { class: "title" }, title), below);
  return below;
}

export function select(name, change) {
  const field = make("select", { name });
  field.addEventListener("change", () => change(field.value));
  return field;
}

// Fills a select with [value, text] pairs if they have changed, and chooses one.
export function fill(field, options, chosen) {
  const wanted = JSON.stringify(options);
  if (field.dataset.options !== wanted) {
    field.dataset.options = wanted;
    field.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  }
  field.value = chosen;
}

export function choices(legend) {
  const group = make("fieldset", {}, make("legend", {}, legend));
  group.fields = make("div", { class: "fields" });
  group.append(group.fields);
  return group;
}

// Fills a group with radio buttons or checkboxes, [value, text] pairs, if they have changed. A choice
// calls the latest change.
export function fillChoices(group, type, name, options, isChosen, change) {
  const wanted = JSON.stringify(options);
  group.change = change;
  if (group.dataset.options !== wanted) {
    group.dataset.options = wanted;
    group.fields.replaceChildren(
      ...options.map(([value, text]) => {
        const field = make("input", { type, name, value });
        field.addEventListener("change", () => group.change(value, field.checked));
        return make("label", {}, field, text);
      }),
    );
  }
  for (const field of group.querySelectorAll("input")) field.checked = isChosen(field.value);
}
