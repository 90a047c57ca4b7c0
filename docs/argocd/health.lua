-- Health check of Argo CD for an MPIJob, PyTorchJob, MXJob or TFJob. docs/gitops.md says how to install it.

-- The first of these conditions that is true decides. Failed comes first, because an operator does not reset Succeeded
-- and Running.
local health = {
  { "Failed", "Degraded" },
  { "Succeeded", "Healthy" },
  { "Suspended", "Suspended" },
  { "Restarting", "Progressing" },
  { "Running", "Progressing" },
  { "Created", "Progressing" },
}

local messages = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.status == "True" then
      messages[condition.type] = condition.message or condition.type
    end
  end
end

for _, pair in ipairs(health) do
  if messages[pair[1]] ~= nil then
    return { status = pair[2], message = messages[pair[1]] }
  end
end
return { status = "Progressing", message = "the operator has not seen the job yet" }
