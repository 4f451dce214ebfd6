#version 450
// One word a pixel: the hash of the pixel's number and the run's seed, mixed with a texel of the cleared texture. The same
// is computed in src/workload/expect.rs; a change here needs one there.

const uint SIDE = 16u;

layout(set = 0, binding = 0) uniform usampler2D source;
layout(push_constant) uniform Push { uint seed; } push;
layout(location = 0) out uint word;

// The finaliser of MurmurHash3, as in hash.comp.
uint hash(uint x)
{
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

void main()
{
    uvec2 pixel = uvec2(gl_FragCoord.xy);
    uint texel = texture(source, gl_FragCoord.xy / float(SIDE)).r;
    word = hash((pixel.y * SIDE + pixel.x) ^ push.seed) ^ texel;
}
