// The dashboard's former address, #nmt_attention, opens its present one.

export function render() {
  parent.location.replace(new URL("#attention", parent.location.href));
}
