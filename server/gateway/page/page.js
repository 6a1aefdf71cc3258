// The page of kinora-gateway: a form, a stage that follows and plays one job, and a history, by /v1 alone.

// ---- Elements and words ----

const $ = id => document.getElementById(id);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function on(target, names, task) {
  for (const name of names.split(" ")) target.addEventListener(name, task);
}

// make("p", {className: "hint"}, "text", child): names with "-" become attributes, others properties.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    name.includes("-") ? element.setAttribute(name, value) : (element[name] = value);
  }
  element.append(...children.filter(Boolean));
  return element;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "i");
  svg.append(document.createElementNS(svg.namespaceURI, "use"));
  svg.firstChild.setAttribute("href", `#i-${name}`);
  return svg;
}

// content: a text, or an icon with a text.
function makeButton(content, onclick, properties = {}) {
  return make("button", {type: "button", onclick, ...properties}, ...[content].flat());
}

function setIcon(button, name, label) {
  button.replaceChildren(icon(name));
  button.ariaLabel = button.title = label;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

function show(ids, shown) {
  for (const id of ids.split(" ")) $(id).hidden = !shown;
}

const say = text => { $("say").textContent = text; };
const warn = text => { $("alert").textContent = text; };
const fail = error => warn(error.message);

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const rounded = number => String(Math.round(number * 100) / 100);
const minutes = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function duration(seconds) {
  if (seconds < 0.95) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function bytes(count) {
  if (count < 1e6) return `${Math.max(1, Math.round(count / 1e3))} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(1)} GB`;
}

function clock(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString([], {timeStyle: "short", hourCycle: "h23"});
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString([], {day: "numeric", month: "short"})} ${time}`;
}

function later(task, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(task, milliseconds);
  };
}

const toJson = JSON.stringify;
const toText = value => (typeof value === "object" ? toJson(value) : String(value));
const stored = name => JSON.parse(sessionStorage.getItem(name) ?? "{}");

// ---- API ----

let token = sessionStorage.getItem("token") ?? "", refused = false;

// An error body of the gateway. status 0: no answer came.
class ApiError extends Error {
  constructor(status, {message = `The server answered ${status}.`, param, fields = []} = {}) {
    super(message);
    Object.assign(this, {status, param, fields});
  }
}

async function call(method, path, {json, body, headers = {}, signal} = {}) {
  const init = {method, signal, body, headers};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (json) {
    headers["Content-Type"] = "application/json";
    init.body = toJson(json);
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    connectionLost();
    throw new ApiError(0, {message: "The server cannot be reached."});
  }
  connectionFound();
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) {
    refused = true;
    askForToken(token !== "");
  }
  throw new ApiError(response.status, answer.error);
}

const ask = async (method, path, options) => (await call(method, path, options)).json();

// The events of a job as {name, id, data}.
async function* events(id, last, signal) {
  const headers = last ? {"Last-Event-ID": last} : {};
  const response = await call("GET", `/v1/videos/${id}/events`, {headers, signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const {event: name, id: number, data} =
          Object.fromEntries([...block.matchAll(/^(\w+): (.*)$/gm)].map(m => m.slice(1)));
      if (name) yield {name, id: number, data: JSON.parse(data)};
    }
  }
}

// Where <video> and downloads read a clip. They cannot send the token, so the gateway signs a link.
async function clipUrl(id) {
  if (!token) return `/v1/videos/${id}/content`;
  return (await ask("POST", `/v1/videos/${id}/link`, {json: {variant: "video"}})).url;
}

// ---- Connection and group ----

const connection = {lost: false, tries: 0, seconds: 0, timer: 0, waiting: []};

function connectionLost() {
  if (connection.lost) return;
  Object.assign(connection, {lost: true, tries: 0});
  showGroup("bad", "not connected");
  retryLater();
}

function connectionFound() {
  if (!connection.lost) return;
  clearInterval(connection.timer);
  connection.lost = false;
  show("lost", false);
  connection.waiting.splice(0).forEach(resume => resume());
  refreshSoon();
}

function retryLater() {
  const tell = () => setText($("lost-text"), `The connection is lost. Next try in ${connection.seconds} s.`);
  clearInterval(connection.timer);
  connection.seconds = Math.min(2 ** connection.tries++, 15);
  connection.timer = setInterval(() => (--connection.seconds > 0 ? tell() : retryNow()), 1000);
  tell();
  show("lost", true);
}

async function retryNow() {
  clearInterval(connection.timer);
  setText($("lost-text"), "The connection is lost. Trying now.");
  await ask("GET", "/v1/models").catch(() => {});
  if (connection.lost) retryLater();
}

// Resolves once the server answers again: after a second, if it never stopped.
function whenBack() {
  return new Promise(resume => (connection.lost ? connection.waiting.push(resume) : setTimeout(resume, 1000)));
}

let groupsServed = true;  // until /v1/groups answers 404: the gateway knows no admin address

async function readGroups() {
  if (!groupsServed) return [];
  try {
    return (await ask("GET", "/v1/groups")).data;
  } catch (error) {
    groupsServed = error.status !== 404;
    return [];
  }
}

function showGroup(state, text) {
  $("group").dataset.state = state;
  setText($("group-text"), text);
  if (!models.length && !stage.id) showMessage(text);
}

function describeGroups(groups) {
  const words = ({id, state, reason, video_id}) =>
    `group ${id}: ${state}${video_id ? `, makes ${video_id}` : ""}${reason ? `, ${reason}` : ""}`;
  $("group").title = groups.map(words).join("\n");
  const states = groups.map(({state}) => state);
  const counts = [...new Set(states)].map(state => `${states.filter(each => each === state).length} ${state}`);
  if (models.length) return showGroup("ready", `ready${counts.length ? `: ${counts.join(", ")}` : ""}`);
  const lost = groups.find(({reason}) => reason);
  showGroup(lost ? "bad" : "wait", lost ? `no worker: ${lost.reason}` : groups[0]?.state ?? "loading the model");
}

async function refreshState() {
  try {
    setModels((await ask("GET", "/v1/models")).data);
    describeGroups(await readGroups());
  } catch (error) {
    if (error.status) showGroup("bad", error.status === 401 ? "token needed" : error.message);
  }
}

let refreshTimer = 0;

async function refresh() {
  if (!document.hidden && !connection.lost && !refused) {
    await refreshState();
    await refreshList().then(refreshQueue).catch(() => {});
  }
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(refresh, models.length === 0 || busy.length ? 2000 : 6000);
}

const refreshSoon = later(refresh, 50);

// ---- Model and shapes ----

let models = [], model = null;

const recipeNames = {
  one_stage: "one stage", two_stage: "two stages", distilled_two_stage: "distilled, two stages", hq: "HQ, two stages",
};
const partNames = {
  video_encoder: "a video encoder", upsampler: "--worker-model spatial_upsampler=FILE",
  distilled_lora: "--worker-model distilled_lora=FILE", audio_encoder: "an audio encoder",
};

function setModels(list) {
  if (toJson(list) === toJson(models)) return;
  models = list;
  $("model").replaceChildren(...list.map(({id}) => new Option(id, id)));
  const wanted = sessionStorage.getItem("model");
  if (list.some(({id}) => id === wanted)) $("model").value = wanted;
  show("model", list.length);
  chooseModel();
}

function chooseModel() {
  model = models.find(({id}) => id === $("model").value) ?? null;
  if (model) {
    const values = stored("form");
    showRecipes();
    showLoras();
    setValues(values);
    recipeChanged();  // fills the sizes, among which the form's may be
    setValues(values);
    formChanged();
  }
  estimateSoon();
  if (!stage.id) showEmpty();
}

const keyOf = ({recipe, upsampler}) => (upsampler ? `${recipe}/${upsampler}` : recipe);
const recipeOf = parameters => model.recipes.find(({recipe, upsampler}) =>
  recipe === parameters.recipe && (!parameters.upsampler || upsampler === parameters.upsampler));

function limits() {
  const [recipe, upsampler] = (form.recipe.value || model.default_recipe).split("/");
  return recipeOf({recipe, upsampler}) ?? model.recipes[0];
}

function showRecipes() {
  const several = new Set(model.upsamplers).size > 1, first = recipeOf({recipe: model.default_recipe});
  $("recipe").replaceChildren(...model.recipes.map(each => {
    const lacking = Object.keys(partNames).filter(part => each.needs[part] && !model.parts[part]);
    const name = (recipeNames[each.recipe] ?? each.recipe) + (several && each.upsampler ? `, ${each.upsampler}` : "");
    const needs = lacking.length ? ` – needs ${lacking.map(part => partNames[part]).join(" and ")}` : "";
    const option = new Option(name + needs, each === first ? "" : keyOf(each));
    option.disabled = needs !== "";
    return option;
  }));
}

function snap(value, most) {
  const {size_multiple: multiple, min_size} = limits();
  return Math.round(Math.min(Math.max(value, min_size), most) / multiple) * multiple;
}

// Sizes with about the default's number of pixels, and those that the model was trained with: "WxH" -> name.
function namedShapes() {
  const {max_width, max_height, size_multiple, defaults} = limits(), shapes = new Map();
  const ratios = {"wide 16:9": 16 / 9, "landscape 3:2": 3 / 2, square: 1, "portrait 2:3": 2 / 3, "tall 9:16": 9 / 16};
  const add = (width, height, name) => shapes.set(`${width}x${height}`, shapes.get(`${width}x${height}`) ?? name);
  add(defaults.width, defaults.height, "default");
  for (const [name, ratio] of Object.entries(ratios)) {
    const height = snap(Math.sqrt(defaults.width * defaults.height / ratio), max_height);
    add(snap(height * ratio, max_width), height, name);
  }
  for (const {width, height} of model.trained_shapes) {
    if (width % size_multiple === 0 && height % size_multiple === 0) add(width, height, "trained");
  }
  return [...shapes];
}

function recipeChanged() {
  const {defaults, guided, fixed_steps: fixed} = limits(), kept = form.shape.value;
  const options = namedShapes()
      .map(([size, name]) => new Option(`${size.replace("x", " × ")}, ${name}`, name === "default" ? "" : size));
  $("shape").replaceChildren(...options, new Option("Other …", "other"));
  form.shape.value = kept;
  if (form.shape.selectedIndex < 0) form.shape.value = "";
  for (const input of form) {
    if (defaults[input.name] !== undefined) input.placeholder = defaults[input.name];
  }
  const usual = rounded(defaults.num_frames / defaults.fps);
  form.seconds.placeholder = model.parts.duration_head ? `${usual} or 1..20` : usual;
  form.num_inference_steps.disabled = fixed !== null;
  if (fixed !== null) form.num_inference_steps.placeholder = `always ${fixed}`;
  $("guidance").disabled = !guided;
  $("guidance").firstElementChild.textContent = guided ? "Guidance" : "Guidance: this recipe uses none";
  formChanged();
}

const rate = () => (Number(form.fps.value) > 0 ? Number(form.fps.value) : limits().defaults.fps);

// The nearest number of frames that the recipe takes; 0 if the length is not a number.
function chosenFrames() {
  const {frame_multiple: multiple, defaults} = limits(), seconds = Number(form.seconds.value);
  if (!isSet(form.seconds)) return defaults.num_frames;
  return seconds > 0 ? Math.max(0, Math.round((seconds * rate() - 1) / multiple)) * multiple + 1 : 0;
}

function chosenSize() {
  const {width, height} = limits().defaults, {value} = form.shape;
  if (value === "other") return [Number(form.width.value) || width, Number(form.height.value) || height];
  return value ? value.split("x").map(Number) : [width, height];
}

function setSize(width, height) {
  const {defaults} = limits();
  form.shape.value = width === defaults.width && height === defaults.height ? "" : `${width}x${height}`;
  if (form.shape.selectedIndex >= 0) return;
  form.shape.value = "other";
  [form.width.value, form.height.value] = [width, height];
}

// To the nearest that the recipe takes; the server rejects text.
function snapSize({target}) {
  const {size_multiple, min_size, max_width, max_height} = limits(), value = Number(target.value);
  if (!(value > 0)) return;
  const most = target.name === "width" ? max_width : max_height, snapped = snap(value, most);
  setText($("size-note"), snapped === value ? ""
      : `${value} became ${snapped}: multiples of ${size_multiple}, ${min_size} to ${most}.`);
  target.value = snapped;
  onInput();
}

// ---- Form ----

const form = $("form").elements;
const fields = [];  // {element, names, label, error, reset, inputs}

// Gives a field a line for errors and a button that resets it.
function prepareField(element) {
  const names = element.dataset.field.split(" "), label = element.querySelector(":scope > label, :scope > .label");
  const input = element.querySelector("[name]");
  if (label && input) label.htmlFor = input.id ||= input.name;
  const error = make("p", {className: "error", id: `error-${names[0]}`, hidden: true});
  const field = { element, names, label, error, get inputs() { return all("[name]", element); } };
  if (label && names[0] !== "prompt") {
    const clear = () => {
      field.inputs.forEach(clearInput);
      onInput();
      field.inputs[0].focus();
    };
    field.reset = makeButton("Reset", clear,
        {className: "link", hidden: true, ariaLabel: `Reset ${label.textContent}`});
    element.prepend(make("div", {className: "head"}, label, field.reset));
  }
  element.append(error);
  fields.push(field);
}

function clearInput(input) {
  input.type === "checkbox" ? (input.checked = false) : (input.value = "");
}

const isSet = input => (input.type === "checkbox" ? input.checked : input.value.trim() !== "");
const isScale = ({name}) => /^(video|audio)_.*scale$/.test(name);

function addGuidance() {
  const terms = {cfg_scale: "Prompt (CFG)", stg_scale: "Structure (STG)", modality_scale: "Picture and sound",
      rescale_scale: "Rescale"};
  for (const [name, label] of Object.entries(terms)) {
    const input = (side, word) =>
        make("input", {name: `${side}_${name}`, inputMode: "decimal", ariaLabel: `${label}, ${word}`});
    $("guidance").append(make("div", {className: "row", "data-field": `video_${name} audio_${name} guidance_scale`},
      make("span", {className: "label"}, label), input("video", "picture"), input("audio", "sound")));
  }
}

function showLoras() {
  const box = $("loras"), {error} = findField("lora");
  box.hidden = model.loras.length === 0;
  box.replaceChildren(box.firstElementChild, ...model.loras.map(id => make("div", {className: "row"},
    make("label", {className: "check"}, make("input", {type: "checkbox", name: `lora:${id}`}), id),
    make("input", {name: `strength:${id}`, placeholder: "1", inputMode: "decimal", ariaLabel: `Strength of ${id}`}))),
        error);
}

function saveForm() {
  const set = [...form].filter(input => input.name && isSet(input));
  sessionStorage.setItem("form",
      toJson(Object.fromEntries(set.map(input => [input.name, input.type === "checkbox" || input.value]))));
}

function setValues(values) {
  for (const input of form) {
    const value = values[input.name];
    if (value !== undefined) input.type === "checkbox" ? (input.checked = value) : (input.value = value);
  }
}

// Shows what follows from the values.
function formChanged() {
  let changed = 0;
  for (const {inputs, reset, label} of fields) {
    if (!reset) continue;
    const set = inputs.some(isSet);
    reset.hidden = !set;
    label.classList.toggle("changed", set);
    changed += set && $("more").contains(reset);
  }
  $("changed").textContent = changed ? `${changed} changed` : "";
  for (const area of [form.prompt, form.negative_prompt]) {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  }
  if (!model) return;
  const frames = chosenFrames();
  show("custom", form.shape.value === "other");
  $("frames").textContent = frames ? plural(frames, "frame") : "";
  if (frames) pictures.forEach(picture => picture.show(frames));
  saveForm();
  if (stage.id) return;
  setRatio(...chosenSize());
  showCommands();
}

function onInput() {
  submitKey = "";
  formChanged();
  estimateSoon();
}

const plain = ["negative_prompt", "seed", "num_inference_steps", "fps", "priority", "container"];

// Numbers as numbers; others, and integers that a double cannot hold, as text.
function typed(text) {
  const number = Number(text);
  return text.trim() !== "" && Math.abs(number) <= 2 ** 53 ? number : text.trim();
}

// The form's request, and its files by the names of their parts.
function readForm() {
  const request = {prompt: form.prompt.value}, files = {};
  if (models.length > 1) request.model = model.id;
  for (const input of form) {
    const wanted = (plain.includes(input.name) || isScale(input)) && isSet(input) && !input.matches(":disabled");
    if (wanted) request[input.name] = input.name === "negative_prompt" ? input.value : typed(input.value);
  }
  if (form.recipe.value) [request.recipe, request.upsampler] = form.recipe.value.split("/");
  if (form.shape.value !== "other") request.size = form.shape.value;
  else for (const name of ["width", "height"]) request[name] = typed(form[name].value);
  if (!request.size) delete request.size;
  const [min_seconds, max_seconds] = form.seconds.value.split("..");
  if (max_seconds) Object.assign(request, {seconds: "auto", min_seconds, max_seconds});
  else if (isSet(form.seconds)) request[chosenFrames() ? "num_frames" : "seconds"] = chosenFrames() || min_seconds;
  const loras = model.loras.filter(id => form[`lora:${id}`].checked);
  const strength = id => (isSet(form[`strength:${id}`]) ? {strength: typed(form[`strength:${id}`].value)} : {});
  if (loras.length) request.lora = loras.map(id => ({id, ...strength(id)}));
  if (form.parts.value === "picture") request.generate_sound = false;
  if (form.parts.value === "sound") request.audio_only = true;
  readFiles(request, files);
  return {request, files};
}

function fillForm(parameters) {
  const values = {};
  [...form].filter(({name}) => name && name !== "keep_seed").forEach(clearInput);
  if (recipeOf(parameters)) form.recipe.value = keyOf(recipeOf(parameters));
  if (form.recipe.selectedIndex < 0) form.recipe.value = "";
  recipeChanged();
  const {defaults} = limits();
  for (const name of ["prompt", ...plain, ...[...form].filter(isScale).map(input => input.name)]) {
    const value = parameters[name];
    if (String(value) !== String(defaults[name]) && value !== "mp4") values[name] = value;
  }
  for (const {id, strength} of parameters.lora ?? []) {
    values[`lora:${id}`] = true;
    values[`strength:${id}`] = strength;
  }
  values.parts = parameters.audio_only ? "sound" : parameters.generate_sound === false ? "picture" : "";
  const {num_frames, fps, min_seconds: shortest, max_seconds: longest} = parameters;
  if (longest) values.seconds = `${shortest}..${longest}`;
  else if (num_frames && num_frames !== defaults.num_frames) values.seconds = rounded(num_frames / fps);
  setValues(values);
  if (parameters.width) setSize(parameters.width, parameters.height);
  fillFiles(parameters);
  onInput();
}

// "…; nearest: 128" and "…; nearest at this size: 33 frames" are links that set the value.
function offerNearest({error}, field, message) {
  const value = message.match(/nearest[^:]*: ([\d.]+)/)?.[1], name = field === "num_frames" ? "seconds" : field;
  if (!value || !form[name]) return;
  const use = () => {
    form[name].value = field === "num_frames" ? rounded(value / rate()) : value;
    onInput();
    form[name].focus();
  };
  error.append(" ", makeButton(`Use ${value}`, use, {className: "link"}));
}

function clearErrors() {
  setText($("form-error"), "");
  for (const {error, inputs} of fields) {
    setText(error, "");
    for (const input of inputs) ["aria-invalid", "aria-describedby"].forEach(name => input.removeAttribute(name));
  }
}

// The field of the page for "conditions[0].frame", "width" …
const findField = param => fields.find(({names}) => names.includes((param ?? "").split(/[.[]/, 1)[0]));

// Shows the server's words at their fields.
function showErrors(error, focus) {
  clearErrors();
  const wrong = error.fields.length ? error.fields : [{field: error.param, message: error.message}];
  let first = null;
  for (const {field, message} of wrong) {
    const found = findField(field);
    if (!found) {
      setText($("form-error"), `${$("form-error").textContent} ${message}`.trim());
      continue;
    }
    setText(found.error, message);
    offerNearest(found, field, message);
    found.element.hidden = false;
    const inputs = found.inputs.filter(each => each.offsetParent);
    const input = inputs.find(({name}) => name === field) ?? inputs[0] ?? found.inputs[0];
    input?.setAttribute("aria-invalid", "true");
    input?.setAttribute("aria-describedby", found.error.id);
    first ??= input ?? found.element.querySelector("input");
  }
  if (!focus) return;
  if (first && $("more").contains(first)) $("more").open = true;
  first?.focus();
  warn(wrong.map(({message}) => message).join(" "));
}

// ---- Files ----

// Each has `file`, or `input`: the ID of one that is on the server already.
let pictures = [];  // {name, url, frame, atEnd, strength, show}
let sound = null;   // {name, start, length}
let retake = null;  // {name, url, start, end, length, keep_video, keep_audio}

function attach(list) {
  for (const file of list) {
    const {name} = file, [kind] = file.type.split("/"), url = URL.createObjectURL(file);
    if (kind === "image") addPicture({file, name, url, frame: 0, atEnd: pictures.length === 1, strength: ""});
    else if (kind === "audio") setSound({file, name, start: 0, length: 0});
    else if (kind === "video") setRetake({file, name, url, start: 0, end: 0, length: 0});
    else warn(`${name} is neither a picture, a sound nor a clip.`);
  }
  onInput();
}

// A box of a file with a button that removes it.
function chip(item, className, back, remove, ...children) {
  const removed = () => {
    remove();
    onInput();
    $(back).focus();
  };
  const button = makeButton(icon("close"), removed,
      {className: "icon", title: "Remove", ariaLabel: `Remove ${item.name}`});
  return make("div", {className: `chip ${className}`}, make("span", {className: "name", title: item.name}, item.name),
      button, ...children);
}

function showChips(id, ...chips) {
  $(id).replaceChildren(...chips, findField($(id).dataset.field.split(" ")[0]).error);
  $(id).hidden = chips.length === 0;
}

function showPictures() {
  showChips("pictures", ...pictures.map(({chip: box}) => box));
}

// A picture's time line is the clip's: one at its end stays the last frame if the length changes.
function addPicture(picture) {
  const named = (what, properties) => make("input", {ariaLabel: `${what} of ${picture.name}`, ...properties});
  const frame = named("Frame", {inputMode: "numeric"});
  const line = named("Time", {type: "range", min: 0, className: "rest"});
  const strength = named("Strength", {inputMode: "decimal", placeholder: "1", value: picture.strength});
  picture.show = frames => {
    line.max = Math.max(frames - 1, 0);
    if (picture.atEnd) picture.frame = frames - 1;
    line.value = picture.frame;
    line.ariaValueText = `frame ${picture.frame}, ${rounded(picture.frame / rate())} s`;
    if (document.activeElement !== frame) frame.value = picture.frame;
  };
  const move = value => Object.assign(picture, {frame: value, atEnd: value > 0 && value === Number(line.max)});
  line.oninput = () => move(Number(line.value));
  frame.oninput = () => move(typed(frame.value));
  strength.oninput = () => { picture.strength = strength.value; };
  const remove = () => {
    pictures = pictures.filter(each => each !== picture);
    showPictures();
  };
  const thumb = make("span", {className: "thumb"}, picture.url && make("img", {src: picture.url, alt: ""}));
  picture.chip = chip(picture, "", "add-pictures", remove,
    make("div", {className: "numbers rest"}, "Frame", frame, "Strength", strength), line);
  picture.chip.prepend(thumb);
  pictures.push(picture);
  showPictures();
}

function setSound(next) {
  sound = next;
  if (!sound) return showChips("sound");
  const start = make("input",
      {type: "range", min: 0, step: 0.01, className: "span", ariaLabel: `Start in ${sound.name}`});
  const canvas = make("canvas", {width: 600, height: 96, className: "span", hidden: !sound.file, ariaHidden: "true"});
  const words = make("span", {className: "quiet span"});
  const tell = () => {
    start.max = Math.max(next.length, next.start);
    start.value = next.start;
    words.textContent = `starts at ${rounded(next.start)} s${next.length ? ` of ${rounded(next.length)} s` : ""}`;
    start.ariaValueText = words.textContent;
  };
  start.oninput = () => {
    next.start = Number(start.value);
    tell();
  };
  tell();
  showChips("sound", chip(sound, "wide", "add-sound", () => setSound(null), canvas, start, words));
  if (next.file) drawWaveform(next, canvas).then(tell, () => {});  // the server may read what the browser cannot
}

async function drawWaveform(item, canvas) {
  const decoded = await new OfflineAudioContext(1, 1, 48000).decodeAudioData(await item.file.arrayBuffer());
  const samples = decoded.getChannelData(0), step = samples.length / canvas.width, context = canvas.getContext("2d");
  item.length = decoded.duration;
  context.fillStyle = getComputedStyle($("generate")).backgroundColor;
  for (let x = 0; x < canvas.width; x += 1) {
    const peak = samples.subarray(x * step, (x + 1) * step)
        .reduce((most, each) => Math.max(most, Math.abs(each)), 0.01);
    context.fillRect(x, canvas.height * (0.5 - peak / 2), 1, canvas.height * peak);
  }
}

// A clip with two handles, between which it is made anew; beyond its end it is extended.
function setRetake(next) {
  retake = next;
  if (!retake) return showChips("retake");
  const video = make("video",
      {muted: true, preload: "auto", className: "span", tabIndex: -1, hidden: !next.url, ariaHidden: "true"});
  const part = make("div", {className: "part"}), words = make("span", {className: "quiet span"});
  const [start, end] = ["Start", "End"].map(name =>
    make("input", {type: "range", min: 0, step: 0.01, ariaLabel: `${name} of the part to make anew`}));
  const tell = () => showRange(next, start, end, part, words);
  const move = () => {
    const moved = Number(start.value) === next.start ? "end" : "start";
    next.start = moved === "start" ? Math.min(Number(start.value), next.end) : next.start;
    next.end = Math.max(Number(end.value), next.start);
    video.currentTime = Math.min(next[moved], next.length);
    form.seconds.value = rounded(Math.max(next.length, next.end));
    tell();
  };
  start.oninput = end.oninput = move;
  const keep = (name, label) => {
    const box = make("input", {type: "checkbox", checked: next[name] ?? false});
    box.onchange = () => { next[name] = box.checked; };
    return make("label", {className: "check"}, box, label);
  };
  video.onloadedmetadata = () => {
    if (!next.length) measureRetake(next, video);
    tell();
  };
  if (next.url) video.src = next.url;
  showChips("retake", chip(next, "wide", "add-clip", () => setRetake(null), video,
    make("div", {className: "handles span"}, make("div", {className: "track"}, part), start, end), words,
    make("div", {className: "span"}, keep("keep_video", "Keep the picture"), keep("keep_audio", "Keep the sound"))));
  tell();
}

function showRange(clip, start, end, part, words) {
  const whole = Math.max(clip.length * 1.5, clip.end, 0.1), past = clip.end - clip.length;
  start.max = end.max = whole;
  [start.value, end.value] = [clip.start, clip.end];
  part.style.left = `${(clip.start / whole) * 100}%`;
  part.style.right = `${(1 - clip.end / whole) * 100}%`;
  [start.ariaValueText, end.ariaValueText] = [clip.start, clip.end].map(value => `${rounded(value)} s`);
  words.textContent = `makes ${rounded(clip.start)} to ${end.ariaValueText} anew`;
  if (past > 0.005) words.textContent += `, ${rounded(past)} s past the end`;
}

// The request of a retake states the clip's size and length, which the server does not read from the clip.
function measureRetake(clip, video) {
  const {duration: length, videoWidth, videoHeight} = video;
  Object.assign(clip, {length, start: length / 2, end: length});
  if (!model) return;
  setSize(videoWidth, videoHeight);
  form.seconds.value = rounded(length);
  onInput();
}

function readFiles(request, files) {
  const part = (item, name) => {
    if (item.file) files[name] = item.file;
    return item.file ? `part:${name}` : item.input;
  };
  if (pictures.length) {
    request.conditions = pictures.map((each, i) => ({
      image: part(each, `picture${i + 1}`), frame: each.frame, ...(each.strength && {strength: typed(each.strength)}),
    }));
  }
  if (sound) request.audio_reference =
      {[sound.file ? "audio_url" : "file_id"]: part(sound, "sound"), start_seconds: sound.start};
  if (retake) {
    const {start: start_seconds, end: end_seconds, keep_video = false, keep_audio = false} = retake;
    request.retake = {clip: part(retake, "clip"), start_seconds, end_seconds, keep_video, keep_audio};
  }
}

function fillFiles({conditions = [], audio_reference: heard, retake: part, num_frames, fps}) {
  pictures = [];
  showPictures();
  for (const {image, frame, strength = ""} of conditions) {
    const name = `picture ${pictures.length + 1} of that clip`;
    if (image) addPicture({input: image, name, frame, strength: String(strength)});
  }
  setSound(heard && {input: heard.file_id, name: "sound of that clip", start: heard.start_seconds, length: 0});
  setRetake(part && {
    ...part, input: part.clip, name: "clip", start: part.start_seconds, end: part.end_seconds, length: num_frames / fps,
  });
}

function acceptFiles() {
  for (const input of all(".drop input")) {
    input.onchange = () => {
      attach(input.files);
      input.value = "";
    };
  }
  const over = on => all(".drop").forEach(each => each.classList.toggle("over", on));
  on(window, "dragover", event => { event.preventDefault(); over(true); });
  on(window, "dragleave", event => event.relatedTarget || over(false));
  on(window, "drop", event => { event.preventDefault(); over(false); attach(event.dataTransfer.files); });
}

// ---- Estimate and create ----

let submitKey = "", estimateAbort = null, submitting = false;

// Files do not travel for an estimate.
function estimateRequest() {
  const {request} = readForm(), local = value => toJson(value ?? "").includes('"part:');
  for (const name of ["conditions", "audio_reference", "retake"]) if (local(request[name])) delete request[name];
  return request;
}

async function estimate() {
  estimateAbort?.abort();
  if (!model) return setEstimate("", "");
  estimateAbort = new AbortController();
  try {
    const answer = await ask("POST", "/v1/estimates", {json: estimateRequest(), signal: estimateAbort.signal});
    clearErrors();
    if (!answer.fits) return showTooLarge(answer);
    setEstimate(`≈ ${duration(answer.estimated_seconds)}`.replace("≈ under", "<"), "");
  } catch (error) {
    if (error.name === "AbortError") return;
    setEstimate("", "");
    if (error.status === 422 || error.status === 400) showErrors(error, false);
  }
}

const estimateSoon = later(estimate, 300);

function setEstimate(cost, note, fits = true) {
  $("cost").textContent = cost;
  setText($("estimate"), note);
  $("generate").disabled = submitting || !model || !fits;
}

function showTooLarge({problems, nearest}) {
  setEstimate("", problems[0] ?? "The worker has too little memory for this clip.", false);
  if (!nearest) return;
  const {width, height, num_frames} = nearest, seconds = rounded(num_frames / rate());
  const use = () => {
    setSize(width, height);
    form.seconds.value = seconds;
    onInput();
    $("seconds").focus();
  };
  $("estimate").append(" ", makeButton(`Use ${width} × ${height}, ${seconds} s`, use, {className: "link"}));
}

function generate(event) {
  event.preventDefault();
  if ($("generate").disabled) return;
  const {request, files} = readForm();
  if (request.prompt.trim()) return create(request, files);
  showErrors({fields: [{field: "prompt", message: "Describe what the clip shows and sounds like."}]}, true);
}

function toMultipart(request, files) {
  const body = new FormData();
  for (const [name, value] of Object.entries(request)) body.append(name, toText(value));
  for (const [name, file] of Object.entries(files)) body.append(name, file, file.name);
  return body;
}

async function create(request, files = {}) {
  // A second press after a lost answer makes no second clip.
  submitKey ||= String(crypto.getRandomValues(new Uint32Array(4)));
  submitting = true;
  $("generate").disabled = true;
  if (!request.audio_only) Object.assign(request, {thumbnail: true, preview_every_steps: 1});
  const sent = Object.keys(files).length ? {body: toMultipart(request, files)} : {json: request};
  try {
    const video = await ask("POST", "/v1/videos", {...sent, headers: {"Idempotency-Key": submitKey}});
    submitKey = "";
    clearErrors();
    if (form.keep_seed.checked) form.seed.value = video.seed;
    formChanged();
    mergeVideos([video]);
    refreshSoon();
    say("The clip is queued.");
    location.hash = `#/v/${video.id}`;
  } catch (error) {
    if (error.status) submitKey = "";
    showErrors(error, true);
  } finally {
    submitting = false;
    $("generate").disabled = !model;
  }
}

// ---- Stage ----

const stage = {id: "", video: null, abort: null, source: "", endsAt: 0, progress: null};

const stageNames = {
  read_inputs: "Reading the inputs", put_on_loras: "Applying LoRAs", encode: "Reading the prompt",
  encode_audio: "Reading the sound", encode_inputs: "Reading the pictures", denoise: "Denoising",
  denoise_1: "Denoising, first stage", upsample: "Upsampling", denoise_2: "Denoising, second stage",
  decode_video: "Decoding the picture", decode_audio: "Decoding the sound", finalize: "Writing the file",
};

const ended = ({state}) => ["completed", "failed", "cancelled"].includes(state);

function setRatio(width = 3, height = 2) {
  $("frame").style.setProperty("--ratio", Math.min(Math.max(width / height, 0.3), 4));
}

function route() {
  const id = location.hash.match(/^#\/v\/([\w-]+)$/)?.[1] ?? "";
  if (id !== stage.id) openVideo(id);
}

async function openVideo(id) {
  stage.abort?.abort();
  stopPlayer();
  Object.assign(stage, {id, video: null, abort: new AbortController(), progress: null});
  const {signal} = stage.abort;
  $("preview").removeAttribute("src");
  markOpen();
  if (!id) return showEmpty();
  try {
    const data = await ask("GET", `/v1/videos/${id}`, {signal});
    onEvent({data});  // it may have failed already
    if (!ended(data)) await watch(id, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 0) return whenBack().then(() => signal.aborted || openVideo(id));
    showMessage(error.status === 404 ? "There is no clip with this ID. It may have been deleted." : error.message);
  }
}

// Follows a job to its end, across lost connections.
async function watch(id, signal) {
  let last = "";
  while (!signal.aborted) {
    try {
      for await (const event of events(id, last, signal)) {
        if (signal.aborted) return;
        last = event.id ?? last;
        onEvent(event);
        if (event.name === "terminal") return;
      }
    } catch (error) {
      if (signal.aborted || (error.status >= 400 && error.status < 500)) throw error;
      if (!error.status) connectionLost();
    }
    await whenBack();
  }
}

function onEvent({name, data}) {
  if (name === "preview") return showPreview(data.image);
  if (name === "stage" || name === "step") return showProgress(data);
  const before = stage.video?.state;
  showVideo(data);
  mergeVideos([data]);
  const words = {running: "The clip is being made.", completed: "The clip is finished.",
      cancelled: "The clip is cancelled."};
  if (data.state !== before) refreshSoon();
  if (data.state !== before && words[data.state]) say(words[data.state]);
  if (data.state === "failed") warn(`The clip failed: ${data.error.message}`);
}

function showPreview(image) {
  $("preview").src = image;
  show("preview", true);
  show("empty", false);
  const thumbnail = rowOf(stage.id)?.querySelector("img");
  if (thumbnail) Object.assign(thumbnail, {src: image, hidden: false});
}

// Instead of a picture.
function fillFrame(...content) {
  show("empty", true);
  $("empty").replaceChildren(...content);
}

function showMessage(...content) {
  show("player running failed about clip preview", false);
  fillFrame(...content);
  document.title = "Kinora";
}

// Prompts that the demo model knows.
const samples = [
  "a yellow triangle moves up on a blue background while a high tone plays",
  "a red circle stays still on a white background while a medium tone plays",
];

function showEmpty() {
  if (!model) return showMessage("No model is loaded yet");
  const known = model.id.includes("demo") ? samples : [];
  setRatio(...chosenSize());
  const use = text => {
    form.prompt.value = text;
    onInput();
    form.prompt.focus();
  };
  const buttons = known.map(text => makeButton(text, () => use(text), {className: "sample"}));
  const first = `Write a prompt and press Generate${known.length ? ", or start from one of these:" : "."}`;
  showMessage(make("strong", {}, "No clip is open"), make("span", {}, first), ...buttons);
  showCommands();
}

function showVideo(video) {
  const {state, parameters, prompt} = video, done = ended(video);
  stage.video = video;
  setRatio(parameters.width, parameters.height);
  show("about", true);
  show("running", !done);
  show("failed", done && state !== "completed");
  if (done) show("preview empty", false);
  if (!done) showProgress(video.progress_details);
  else if (state === "completed") play(video);
  else showFailure(video);
  $("title").textContent = prompt || "(no prompt)";
  $("title").title = prompt;
  document.title = `${prompt.slice(0, 40) || "clip"} – Kinora`;
  showFacts(video);
  showActions(video);
  showRequest(video);
  showCommands();
}

function showFailure({state, error}) {
  const cancelled = state === "cancelled";
  $("failed").classList.toggle("calm", cancelled);
  $("failed-text").textContent = cancelled ? "This clip was cancelled." : error.message;
  setText($("failed-hint"), cancelled ? "" : "Edit the request and try again. The log of the worker may say more.");
  fillFrame(cancelled ? "Cancelled" : "Failed");
}

function showFacts({seed, size, seconds, num_frames, fps, inference_time_s, artifacts, expires_at, media_type,
    warnings, resumed_from}) {
  const clip = artifacts.find(each => each.media_type === media_type);
  $("facts").textContent = [seed !== null && `seed ${seed}`, size?.replace("x", " × "),
    num_frames && `${rounded(seconds)} s`, num_frames && size && `${plural(num_frames, "frame")} at ${fps} fps`,
    clip && `made in ${duration(inference_time_s)}`, clip && bytes(clip.bytes),
    resumed_from && `resumed at step ${resumed_from.step}`, expires_at && `kept until ${clock(expires_at)}`,
    ...warnings].filter(Boolean).join(" · ");
}

// The bar spans the whole request.
function showProgress(progress) {
  const {video} = stage, queued = video.state === "queued";
  if (progress) stage.progress = progress;
  if (progress) stage.endsAt = progress.remaining_seconds === null ? 0 : Date.now() + progress.remaining_seconds * 1000;
  const percent = Math.round((stage.progress?.fraction ?? 0) * 100), text = queued ? queueText(video) : progressText();
  $("progress").firstElementChild.style.width = `${percent}%`;
  Object.assign($("progress"), {ariaValueNow: percent, ariaValueText: text});
  setText($("progress-text"), text);
  if ($("preview").hidden) fillFrame(queued ? "In the queue" : "The preview comes with the first step");
  const item = list.items.get(video.id);
  if (item?.state === "running") putItem({...item, progress: percent});
}

function queueText({id, created_at}) {
  const {place, waits_for} = busy.find(each => each.id === id) ?? {};
  if (waits_for) return `Queued: waits for ${waits_for}`;
  const ahead = busy.filter(each => each.created_at < created_at);
  const wait = ahead.reduce((sum, each) => sum + each.estimated * (1 - each.progress / 100), 0);
  const text = `${place > 1 ? `Number ${place} i` : place ? "Next i" : "I"}n the queue`;
  return wait > 1 ? `${text}, starts in about ${duration(wait)}` : text;
}

function progressText() {
  const {progress, endsAt} = stage;
  if (!progress?.stage) return "Starting";
  const {step, total_steps} = progress;
  const steps = total_steps > 1 ? `, step ${Math.min(step + 1, total_steps)} of ${total_steps}` : "";
  const left = endsAt ? `, ${duration(Math.max(0, (endsAt - Date.now()) / 1000))} left` : "";
  return `${stageNames[progress.stage] ?? progress.stage}${steps}${left}`;
}

function showActions(video) {
  const done = video.state === "completed", moving = done && video.media_type?.startsWith("video/");
  const actions = [
    done && video.media_type && ["Download", "down", () => download(video.id, video.file_name)],
    ended(video) && [done ? "New seed" : "Try again", "again", () => anotherSeed(video)],
    moving && ["First frame", "first", () => useFrame("first"), "Use the first frame for a new clip"],
    moving && ["Last frame", "last", () => useFrame("last"), "Use the last frame for a new clip"],
    moving && ["Retake", "cut", () => startRetake(video), "Make a part of this clip anew"],
    ["Edit", "edit", () => { fillForm(video.parameters); form.prompt.focus(); }, "Edit this request"],
    ["Link", "link", () => copy(location.href, "link"), "Copy the link"],
    ["Delete", "bin", () => deleteVideos([video.id])],
  ].filter(Boolean);
  const names = actions.map(([name]) => name).join();
  if ($("actions").dataset.for === video.id + names) return;
  $("actions").dataset.for = video.id + names;
  $("actions").replaceChildren(...actions.map(([name, symbol, task, title = name]) =>
    makeButton([icon(symbol), name], () => Promise.resolve(task()).catch(fail), {title})));
}

async function download(id, name) {
  const link = make("a", {href: await clipUrl(id), download: name || id});
  document.body.append(link);
  link.click();
  link.remove();
}

function anotherSeed({parameters}) {
  const {seed, ...request} = parameters;
  submitKey = "";
  return create(request);
}

async function useFrame(which) {
  const video = $("clip"), {parameters, fps} = stage.video;
  video.pause();
  await new Promise(resolve => {
    on(video, "seeked", resolve, {once: true});
    video.currentTime = which === "first" ? 0 : Math.max(0, video.duration - 0.5 / fps);
  });
  const canvas = make("canvas", {width: video.videoWidth, height: video.videoHeight});
  canvas.getContext("2d").drawImage(video, 0, 0);
  const blob = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  pictures = pictures.filter(({frame}) => frame !== 0);
  setSize(parameters.width, parameters.height);
  attach([new File([blob], `${which} frame.png`, {type: "image/png"})]);
  form.prompt.focus();
  say(`The ${which} frame is the first picture of the new clip.`);
}

async function startRetake({id, parameters, num_frames, file_name, media_type: type}) {
  const blob = await (await call("GET", `/v1/videos/${id}/content`)).blob();
  const length = num_frames / parameters.fps;
  fillForm({...parameters, conditions: undefined, audio_reference: undefined, retake: undefined, seed: undefined});
  const file = new File([blob], file_name || `${id}.mp4`, {type});
  setRetake({file, name: `Retake of ${file.name}`, url: URL.createObjectURL(blob), start: length / 2, end: length,
      length});
  form.seconds.value = rounded(length);
  onInput();
  $("retake").querySelector("input[type=range]").focus();
}

function makeTable([caption, values]) {
  const rows = Object.entries(values).filter(([, value]) => value !== null && value !== "")
      .map(([name, value]) => make("tr", {},
    make("th", {scope: "row"}, name), make("td", {}, toText(value))));
  return rows.length && make("table", {}, make("caption", {}, caption), make("tbody", {}, ...rows));
}

function showRequest(video) {
  const {id, parameters, stage_durations: stages, peak_memory_mb: memory, queue_seconds: queued, artifacts} = video;
  const run = {attempt: video.attempt, queued: queued && `${queued.toFixed(1)} s`};
  run["peak memory"] = memory && bytes(memory * 1e6);
  for (const [name, seconds] of Object.entries(stages)) run[stageNames[name] ?? name] = `${seconds.toFixed(2)} s`;
  const files = Object.fromEntries(artifacts
      .map(each => [each.file_name, `${bytes(each.bytes)}, SHA-256 ${each.sha256}`]));
  const request = {id, ...parameters, ...video.metadata};
  const tables = [["Request", request], ["Run", run], ["Files", files], ["Digests", video.digests]];
  $("request").lastElementChild.replaceChildren(...tables.map(makeTable).filter(Boolean));
}

// ---- Player ----

let muted = false;

async function play({id, media_type}) {
  if (stage.source === id) return;
  stage.source = id;
  if (!/^(video|audio)\//.test(media_type ?? "")) {
    return fillFrame(media_type ? "A browser does not play this format. Download it." : "This clip has expired.");
  }
  const video = $("clip"), url = await clipUrl(id).catch(() => "");
  if (!url || stage.id !== id) return;
  video.src = url;
  show("clip player", true);
  video.muted = muted || !navigator.userActivation?.hasBeenActive;  // browsers allow sound after a first gesture
  showPlayer();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) video.play().catch(() => {});
}

function stopPlayer() {
  $("clip").pause();
  $("clip").removeAttribute("src");
  show("clip player preview", false);
  stage.source = "";
}

function showPlayer() {
  const video = $("clip"), total = video.duration || 0, text = `${minutes(video.currentTime)} / ${minutes(total)}`;
  setIcon($("play"), video.paused ? "play" : "pause", video.paused ? "Play" : "Pause");
  setIcon($("mute"), video.muted ? "muted" : "sound", video.muted ? "Turn the sound on" : "Mute");
  $("seek").value = total ? (video.currentTime / total) * 1000 : 0;
  $("seek").ariaValueText = text;
  $("time").textContent = text;
}

const togglePlay = () => ($("clip").paused ? $("clip").play().catch(() => {}) : $("clip").pause());

function toggleMute() {
  muted = !$("clip").muted;
  $("clip").muted = muted;
}

function openFullscreen() {
  $("clip").requestFullscreen?.().catch(fail);
}

// A signed link lasts for minutes; a clip that stays open takes a new one and goes on where it was.
async function renewLink() {
  const {id, source, renewedAt = 0} = stage, video = $("clip"), at = video.currentTime;
  if (!token || !source || Date.now() - renewedAt < 10000) return;
  stage.renewedAt = Date.now();
  const url = await clipUrl(id).catch(() => "");
  if (!url || stage.id !== id) return;
  video.src = url;
  video.currentTime = at;
  video.play().catch(() => {});
}

function preparePlayer() {
  const video = $("clip");
  on(video, "play pause timeupdate volumechange loadedmetadata seeked", showPlayer);
  on(video, "error", renewLink);
  video.onclick = $("play").onclick = togglePlay;
  $("mute").onclick = toggleMute;
  $("fullscreen").onclick = openFullscreen;
  $("seek").oninput = () => { video.currentTime = ($("seek").value / 1000) * (video.duration || 0); };
}

// ---- Commands ----

const quote = text => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

function shownRequest() {
  if (!stage.video) return readForm();
  const {parameters} = stage.video, recipe = recipeOf(parameters), defaults = {container: "mp4", ...recipe?.defaults};
  if (recipe?.recipe === model.default_recipe) defaults.recipe = parameters.recipe;
  if (models.length < 2) defaults.model = parameters.model;
  const hidden = ["thumbnail", "preview_every_steps", "embed_parameters"];
  const differs = ([name, value]) => !hidden.includes(name) && toJson(value) !== toJson(defaults[name]);
  return {request: {prompt: "", ...Object.fromEntries(Object.entries(parameters).filter(differs))}, files: {}};
}

// The request as flags of kinora and as keywords of its Python package.
function optionsOf(request, files) {
  const flags = [], keywords = {};
  const add = (flag, value, keyword = flag.replaceAll("-", "_"), python = toJson(value)) => {
    if (value === undefined) return;
    flags.push(value === true ? `--${flag}` : `--${flag} ${quote(String(value))}`);
    keywords[keyword] = value === true ? "True" : python;
  };
  const file = (name = "") => files[name.replace("part:", "")]?.name ?? `FILE-${name.slice(0, 8)}`;
  const {lora = [], conditions = [], audio_reference: heard, retake: part} = request;
  add("negative-prompt", request.negative_prompt);
  for (const name of ["model", "recipe", "size", "width", "height", "seed", "priority"]) add(name, request[name]);
  add("frames", request.num_frames);
  const range = [request.min_seconds, request.max_seconds];
  if (range[1]) add("auto-length", range.join(".."), undefined, `(${range})`);
  add("frame-rate", request.fps, "fps");
  add("steps", request.num_inference_steps);
  for (const term of ["cfg", "stg", "modality", "rescale"]) {
    const names = [`video_${term}_scale`, `audio_${term}_scale`], flag = term === "modality" ? "modality-scale" : term;
    const values = names.map(name => request[name] ?? limits().defaults[name]);
    if (names.some(name => name in request)) add(flag, values.join(), undefined, `(${values.join(", ")})`);
  }
  const loras = lora.map(({id, strength = 1}) => `${id}:${strength}`);
  loras.forEach(each => add("lora", each, "loras", toJson(loras)));
  const images = conditions.map(({image, clip, frame, strength = 1}) => [file(image ?? clip), frame, strength]);
  images.forEach(([name, frame, strength]) => add("image", `${name}@${frame}:${strength}`, "images", toJson(images)));
  const sound_file = file(heard?.audio_url ?? heard?.file_id);
  if (heard) add("audio", `${sound_file}@${heard.start_seconds}`, "audio", `("${sound_file}", ${heard.start_seconds})`);
  const [from, to] = [part?.start_seconds, part?.end_seconds].map(rounded);
  if (part) add("retake", `${file(part.clip)}:${from}-${to}`, "retake", `("${file(part.clip)}", ${from}, ${to})`);
  add("without-audio", request.generate_sound === false || undefined, "silent");
  add("audio-only", request.audio_only);
  return {flags, keywords};
}

function curlCommand(request, files) {
  const bearer = token ? ' -H "Authorization: Bearer $KINORA_TOKEN"' : "";
  const begin = `curl ${location.origin}/v1/videos${bearer}`;
  const parts = Object.entries(request).map(([name, value]) => `${name}=${toText(value)}`);
  for (const [name, file] of Object.entries(files)) parts.push(`${name}=@${file.name}`);
  if (Object.keys(files).length) return [begin, ...parts.map(part => `-F ${quote(part)}`)].join(" \\\n  ");
  return `${begin} -H 'Content-Type: application/json' -d ${quote(toJson(request))}`;
}

function showCommands() {
  if (!model || !$("commands").open) return;
  const {request, files} = shownRequest(), {flags, keywords} = optionsOf(request, files);
  const output = `clip.${request.audio_only ? "wav" : {webm: "webm", png_frames: "zip"}[request.container] ?? "mp4"}`;
  const words = [toJson(request.prompt), `out="${output}"`, ...Object.entries(keywords).map(pair => pair.join("="))];
  const commands = {
    kinora: ["kinora generate", quote(request.prompt), ...flags, "-o", output].join(" "),
    curl: curlCommand(request, files),
    Python: `import kinora\n\nclip = kinora.generate(${words.join(", ")})`,
  };
  $("commands").replaceChildren($("commands").firstElementChild, ...Object.entries(commands).map(([name, text]) =>
    make("div", {className: "command"}, make("span", {className: "label"}, name), make("pre", {}, text),
      makeButton("Copy", ({target}) => copy(text, name, target), {ariaLabel: `Copy: ${name}`}))));
}

// Without HTTPS, browsers have navigator.clipboard on loopback alone.
async function copy(text, what, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", {value: text});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`Copied: ${what}`);
  if (button) button.textContent = "Copied";
}

// ---- History ----

// items: what a row shows, not the whole job, so that a thousand stay small.
const list = {items: new Map(), last: "", more: true, loading: false, generation: 0, selected: new Set()};

let busy = [];  // the items of all jobs that wait or run

const rowOf = id => $(`item-${id}`);
const idOf = row => row?.id.slice("item-".length);
const visibleRows = () => all(".item:not([hidden])");

function itemOf({id, prompt, state, created_at, seconds, progress, file_name, estimated_seconds, artifacts,
    queue_position: place, waits_for}) {
  const thumbnail = artifacts.some(({media_type}) => media_type === "image/jpeg");
  return {id, prompt, state, created_at, seconds, progress, file_name, thumbnail, estimated: estimated_seconds ?? 0,
    place, waits_for};
}

function readPage(after) {
  const query = {limit: 30, after, text: $("search").value.trim(), state: $("filter").value};
  return ask("GET", `/v1/videos?${new URLSearchParams(query)}`);
}

async function loadMore() {
  if (list.loading || !list.more || !list.last) return;
  const {generation} = list;
  list.loading = true;
  try {
    const page = await readPage(list.last);
    if (generation !== list.generation) return;
    page.data.forEach(video => putItem(itemOf(video), "append"));
    Object.assign(list, {last: page.last_id ?? list.last, more: page.has_more});
  } catch {
    return;  // the next scroll tries again
  } finally {
    list.loading = false;
    showListNote();
  }
  if (endIsNear()) loadMore();
}

// Older rows do not change by themselves.
async function refreshList() {
  const before = [...list.items.values()], {generation} = list, page = await readPage("");
  if (generation !== list.generation) return;
  if (!list.last) Object.assign(list, {last: page.last_id ?? "", more: page.has_more});
  const ids = new Set(page.data.map(({id}) => id)), oldest = page.data.at(-1)?.created_at ?? 0;
  for (const {id, created_at} of before) {
    if (!ids.has(id) && (!page.has_more || created_at > oldest)) removeItem(id);
  }
  mergeVideos(page.data);
  if (endIsNear()) loadMore();
}

function mergeVideos(videos) {
  for (const video of [...videos].reverse()) putItem(itemOf(video), "prepend");
  showListNote();
}

// Counts the queue, and updates the rows of jobs that wait, run or have just ended.
async function refreshQueue() {
  const {data, has_more: more} = await ask("GET", "/v1/videos?limit=100&state=queued,running,finalizing");
  busy = data.map(itemOf);
  setText($("queue"), `queue ${busy.filter(({state}) => state === "queued").length}${more ? "+" : ""}`);
  const known = new Map(busy.map(item => [item.id, item]));
  for (const item of [...list.items.values()].filter(each => !ended(each))) {
    const read = () => ask("GET", `/v1/videos/${item.id}`).then(itemOf, () => item);
    putItem(known.get(item.id) ?? (more ? item : await read()));
  }
}

function resetList() {
  Object.assign(list, {items: new Map(), last: "", more: true, generation: list.generation + 1});
  $("items").replaceChildren();
  refreshList().catch(() => {});
}

function endIsNear() {
  const box = $("items");
  if (getComputedStyle(box).display === "flex") return box.scrollWidth - box.scrollLeft - box.clientWidth < 300;
  return $("end").getBoundingClientRect().top < innerHeight + 300;
}

function putItem(item, where) {
  const old = list.items.get(item.id);
  if (toJson(old) === toJson(item)) return;
  list.items.set(item.id, item);
  const row = rowOf(item.id) ?? makeRow(item);
  if (!old) $("items")[where](row);
  showRow(row, item);
}

function makeRow({id}) {
  const link = make("a", {href: `#/v/${id}`, tabIndex: -1},
    make("span", {className: "thumb"}, make("img", {alt: "", hidden: true}), make("span", {className: "fill"})),
    make("span", {className: "words"}, make("span", {className: "prompt"}), make("span", {className: "meta"})));
  const box = make("input",
      {type: "checkbox", tabIndex: -1, checked: list.selected.has(id), onchange: () => select(id)});
  const row = make("li", {className: "item", id: `item-${id}`}, link, box);
  sight.observe(row);
  return row;
}

function showRow(row, {id, prompt, state, created_at, seconds, progress}) {
  const words = {running: `${progress} %`, finalizing: "finishing", completed: `${rounded(seconds)} s`,
      failed: "✕ failed"}[state] ?? state;
  const [link, box] = row.children, meta = row.querySelector(".meta"), name = prompt.slice(0, 80) || id;
  row.querySelector(".prompt").textContent = prompt || "(no prompt)";
  row.querySelector(".fill").style.width = state === "running" ? `${progress}%` : "0";
  meta.textContent = `${clock(created_at)} · ${words}`;
  meta.classList.toggle("failed", state === "failed");
  link.ariaLabel = (`${name}, ${state}${state === "running" ? ` ${words}` : ""}, ${clock(created_at)}`);
  link.ariaCurrent = id === stage.id;
  box.ariaLabel = `Select ${name}`;
  row.hidden = $("filter").value !== "" && !$("filter").value.includes(state);
  if (row.dataset.seen) loadThumbnail(row);
  if (!$("items").querySelector("a[tabindex='0']")) roveTo(visibleRows()[0]);
}

// Pictures are loaded while their row is in sight, and let go after.
const sight = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    target.dataset.seen = isIntersecting ? "1" : "";
    isIntersecting ? loadThumbnail(target) : Object.assign(target.querySelector("img"), {src: "data:,", hidden: true});
    if (!isIntersecting) delete target.dataset.loaded;
  }
}, {rootMargin: "200px"});

async function loadThumbnail(row) {
  const path = `/v1/videos/${idOf(row)}/content?variant=thumbnail`, image = row.querySelector("img");
  if (!list.items.get(idOf(row))?.thumbnail || row.dataset.loaded) return;
  row.dataset.loaded = "1";
  try {
    const src = token ? URL.createObjectURL(await (await call("GET", path)).blob()) : path;
    Object.assign(image, {src, hidden: false, onload: () => URL.revokeObjectURL(src)});
  } catch {
    delete row.dataset.loaded;
  }
}

function removeItem(id) {
  const row = rowOf(id), next = row?.nextElementSibling ?? row?.previousElementSibling;
  list.items.delete(id);
  if (list.selected.delete(id)) showSelection();
  if (!row) return;
  const focused = row.contains(document.activeElement);
  sight.unobserve(row);
  row.remove();
  if (next) roveTo(next, focused);
  showListNote();
}

function showListNote() {
  const none = $("search").value.trim() || $("filter").value ? "No clip matches." : "Clips appear here.";
  setText($("items-note"), visibleRows().length ? "" : none);
}

function markOpen() {
  const row = rowOf(stage.id);
  for (const link of all("a[aria-current=true]")) link.ariaCurrent = false;
  if (!row) return;
  row.firstChild.ariaCurrent = true;
  roveTo(row);
}

// One row is in the order of Tab, with its box; arrows and j, k move.
function roveTo(row, focus = false) {
  if (!row) return;
  for (const each of all("[tabindex='0']")) each.tabIndex = -1;
  for (const each of row.children) each.tabIndex = 0;
  if (focus) row.firstChild.focus();
}

function moveRow(by) {
  const rows = visibleRows(), at = rows.findIndex(row => row.contains(document.activeElement));
  const current = rows.findIndex(row => row.firstChild.tabIndex === 0);
  const next = rows[Math.min(Math.max(at < 0 ? current : at + by, 0), rows.length - 1)];
  roveTo(next, true);
  next?.scrollIntoView({block: "nearest", inline: "nearest"});
}

function select(id) {
  if (!list.selected.delete(id)) list.selected.add(id);
  showSelection();
}

function showSelection() {
  const {size} = list.selected;
  show("selection", size);
  $("items").classList.toggle("selecting", size > 0);
  $("selected").textContent = `${size} selected`;
  for (const row of $("items").children) row.lastChild.checked = list.selected.has(idOf(row));
}

async function downloadSelected() {
  for (const id of list.selected) {
    const {state, file_name} = list.items.get(id) ?? {};
    if (state === "completed") await download(id, file_name).catch(fail);
  }
}

async function deleteVideos(ids) {
  const name = id => `“${(list.items.get(id)?.prompt ?? stage.video?.prompt ?? id).slice(0, 80)}”`;
  const running = busy.some(({id}) => ids.includes(id)) ? " What is running is cancelled." : "";
  const names = ids.slice(0, 3).map(name).join(", ") + (ids.length > 3 ? " and others" : "");
  const title = `Delete ${ids.length === 1 ? "this clip" : plural(ids.length, "clip")}?`;
  if (!(await confirmDelete(title, `${names} will be gone for good.${running}`))) return;
  for (const id of ids) {
    try {
      await call("DELETE", `/v1/videos/${id}`);
    } catch (error) {
      if (error.status !== 404) return fail(error);
    }
    removeItem(id);
    if (id === stage.id) location.hash = "";
  }
  say(`${plural(ids.length, "clip")} deleted.`);
}

// ---- Dialogs and keys ----

function askForToken(wrong = false) {
  setText($("token-error"), wrong ? "The server does not accept this token." : "");
  $("token").value = token;
  if (!$("token-dialog").open) $("token-dialog").showModal();
  $("token").select();
}

async function useToken(event) {
  event.preventDefault();
  refused = false;
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  try {
    setModels((await ask("GET", "/v1/models")).data);
  } catch (error) {
    if (error.status === 401) return;
  }
  $("token-dialog").close();
  resetList();
  refreshSoon();
  if (stage.id) openVideo(stage.id);
}

function confirmDelete(title, text) {
  const dialog = $("confirm-dialog");
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  dialog.returnValue = "";
  dialog.showModal();
  $("confirm-yes").focus();
  return new Promise(resolve =>
      dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), {once: true}));
}

function prepareTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const apply = () => {
    root.dataset.theme = localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");
    $("theme").ariaPressed = root.dataset.theme === "dark";
  };
  on(system, "change", apply);
  $("theme").onclick = () => {
    localStorage.setItem("theme", root.dataset.theme === "dark" ? "light" : "dark");
    apply();
  };
  apply();
}

const focusedId = () => idOf(document.activeElement?.closest(".item"));
const ifPlayer = task => () => $("player").hidden || task();

const keys = {
  n: () => form.prompt.focus(),
  "/": () => $("search").focus(),
  "?": () => $("help-dialog").showModal(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  m: ifPlayer(toggleMute),
  f: ifPlayer(openFullscreen),
  " ": ifPlayer(togglePlay),
  x: () => focusedId() && select(focusedId()),
  Delete: () => {
    const ids = list.selected.size ? [...list.selected] : [focusedId() || stage.id];
    if (ids[0]) deleteVideos(ids);
  },
};

function onKey(event) {
  const {key, target} = event, arrow = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[key];
  if (document.querySelector("dialog[open]")) return;
  if (key === "Enter" && (event.ctrlKey || event.metaKey)) return generate(event);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.matches("input:not([type=checkbox]):not([type=range]), select, textarea")) return;
  if (key === " " && target.matches("button, summary, input")) return;
  const task = arrow && target.matches(".item a") ? () => moveRow(arrow) : keys[key];
  if (!task) return;
  event.preventDefault();
  task();
}

function prepareDialogs() {
  for (const button of all("[data-close]")) button.onclick = () => button.closest("dialog").close();
  $("token-open").onclick = () => askForToken();
  $("help-open").onclick = keys["?"];
  $("token-form").onsubmit = useToken;
  $("confirm-yes").onclick = () => $("confirm-dialog").close("yes");
}

function prepareHistory() {
  $("search").oninput = later(resetList, 300);
  $("filter").onchange = resetList;
  $("download-selected").onclick = downloadSelected;
  $("delete-selected").onclick = () => deleteVideos([...list.selected]);
  $("clear-selected").onclick = () => {
    list.selected.clear();
    showSelection();
  };
  on($("items"), "scroll", () => endIsNear() && loadMore());
  new IntersectionObserver(([{isIntersecting}]) => isIntersecting && loadMore(),
      {rootMargin: "300px"}).observe($("end"));
}

function prepareForm() {
  addGuidance();
  all("[data-field]").forEach(prepareField);
  on($("form"), "input change", onInput);
  $("form").onsubmit = generate;
  on(form.recipe, "change", recipeChanged);
  for (const input of [form.width, form.height]) on(input, "change", snapSize);
  on(form.shape, "change", () => {
    setText($("size-note"), "");
    const {width, height} = limits().defaults;
    if (form.shape.value === "other" && !isSet(form.width)) [form.width.value, form.height.value] = [width, height];
  });
  $("reset-all").onclick = () =>
      fillForm({prompt: form.prompt.value, recipe: model?.default_recipe, num_frames: limits().defaults.num_frames});
  $("model").onchange = () => {
    sessionStorage.setItem("model", $("model").value);
    chooseModel();
  };
  form.prompt.value = stored("form").prompt ?? "";
  acceptFiles();
}

prepareTheme();
prepareDialogs();
preparePlayer();
prepareHistory();
prepareForm();
$("lost-now").onclick = retryNow;
$("cancel").onclick = () => call("POST", `/v1/videos/${stage.id}/cancel`).catch(fail);
on($("commands"), "toggle", showCommands);
on(window, "keydown", onKey);
on(window, "hashchange", route);
on(document, "visibilitychange", refreshSoon);
setInterval(() => stage.video && !ended(stage.video) && showProgress(null), 1000);
route();
refresh();
