#version 450
// Stores the specialisation constant into each word.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint NUMBER = 0u;
layout(set = 0, binding = 0, std430) writeonly buffer Output { uint words[]; } result;

void main()
{
    result.words[gl_GlobalInvocationID.x] = NUMBER;
}
