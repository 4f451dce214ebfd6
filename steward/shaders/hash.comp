#version 450
// One word of output for each invocation: the hash of its index and the run's seed, plus what the fill left in the texel
// buffer, scaled. The same sum is computed in src/workload/expect.rs; a change here needs one there.

layout(local_size_x = 64) in;

// Two pipelines are made from this module; each writes its own half of the output.
layout(constant_id = 0) const uint HALF = 0u;
const uint WORDS = 1024u;

layout(set = 0, binding = 0, std430) writeonly buffer Output { uint words[]; } result;
layout(set = 0, binding = 1) uniform usamplerBuffer texels;
layout(set = 0, binding = 2, std140) uniform Parameters { uint scale; } parameters;
layout(push_constant) uniform Push { uint seed; } push;

// The finaliser of MurmurHash3: every bit of the input moves every bit of the output.
uint hash(uint x)
{
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

void main()
{
    uint index = gl_GlobalInvocationID.x;
    uint texel = texelFetch(texels, int(index)).r;
    result.words[HALF * WORDS + index] = hash(index ^ push.seed) + texel * (parameters.scale + HALF);
}
