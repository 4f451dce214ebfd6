//! One shader runs for each vertex, the other for each pixel whose centre lies inside.

use ash::vk;

use crate::exec::Bound;
use crate::interpreter;
use crate::invocation::InvocationWorld;
use crate::pipeline_state::State;
use crate::spirv::Module;

/// In pixels, with depth, and 1 over the fourth coordinate.
type Vertex = [f32; 4];

/// Returns how many samples passed; `None` for a triangle that would have to be clipped, which the driver cannot do.
pub(crate) fn triangles(bound: &Bound, state: &State, words: &[u32], vertices: u32) -> Option<u64> {
    let (first, second) = words.split_at_checked(state.first)?;
    let [vertex_name, fragment_name] = &state.names;
    let vertex = Module::new(first, vk::ShaderStageFlags::VERTEX, vertex_name.as_bytes()).ok()?;
    let fragment = Module::new(second, vk::ShaderStageFlags::FRAGMENT, fragment_name.as_bytes()).ok()?;
    let mut passed = 0_u64;
    for first in (0..vertices / 3).map(|triangle| 3 * triangle) {
        let corner = |index: u32| transform(bound, state, &vertex, first + index);
        let corners = [corner(0)?, corner(1)?, corner(2)?];
        passed = passed.checked_add(fill(bound, state, &fragment, corners)?)?;
    }
    Some(passed)
}

fn transform(bound: &Bound, state: &State, module: &Module<'_>, index: u32) -> Option<Vertex> {
    let mut world = InvocationWorld {
        bound,
        stage: vk::ShaderStageFlags::VERTEX,
        builtin: [index, 0, 0, 0],
        position: [0; 4],
        color: [0; 4],
    };
    interpreter::run(module, &mut world).ok()?;
    in_pixels(world.position.map(f32::from_bits), state.viewport)
}

/// `None` for a corner that would have to be clipped, and for one that is not finite: it would lie inside of every
/// pixel.
fn in_pixels([x, y, z, w]: [f32; 4], port: vk::Viewport) -> Option<Vertex> {
    if !(w > 0.0 && (0.0..=w).contains(&z)) {
        return None;
    }
    let vertex = [
        (x / w + 1.0) * 0.5 * port.width + port.x,
        (y / w + 1.0) * 0.5 * port.height + port.y,
        (port.max_depth - port.min_depth) * (z / w) + port.min_depth,
        1.0 / w,
    ];
    vertex.iter().all(|lane| lane.is_finite()).then_some(vertex)
}

/// Twice the area, with its sign.
fn area(a: Vertex, b: Vertex, [x, y]: [f32; 2]) -> f32 {
    (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])
}

fn fill(bound: &Bound, state: &State, module: &Module<'_>, mut corners: [Vertex; 3]) -> Option<u64> {
    let whole = area(corners[0], corners[1], [corners[2][0], corners[2][1]]);
    if whole < 0.0 {
        corners.swap(1, 2);
    }
    let whole = whole.abs();
    if whole == 0.0 {
        return Some(0);
    }
    let target = bound.target;
    let (offset, extent) = (state.scissor.offset, state.scissor.extent);
    let columns = offset.x.max(0).cast_unsigned()..offset.x.max(0).cast_unsigned().saturating_add(extent.width);
    let rows = offset.y.max(0).cast_unsigned()..offset.y.max(0).cast_unsigned().saturating_add(extent.height);
    let mut passed = 0;
    for y in rows.start..rows.end.min(target.height) {
        for x in columns.start..columns.end.min(target.width) {
            let centre = [x as f32 + 0.5, y as f32 + 0.5];
            let Some(weights) = inside(corners, centre) else {
                continue;
            };
            let mix = |lane: fn(&Vertex) -> f32| {
                let parts = corners.iter().zip(weights);
                parts.map(|(corner, weight)| weight / whole * lane(corner)).sum::<f32>()
            };
            let builtin = [centre[0], centre[1], mix(|corner| corner[2]), mix(|corner| corner[3])].map(f32::to_bits);
            let stage = vk::ShaderStageFlags::FRAGMENT;
            let mut world = InvocationWorld { bound, stage, builtin, position: [0; 4], color: [0; 4] };
            interpreter::run(module, &mut world).ok()?;
            let at = target.offset(x, y)?;
            target.bytes.set_word(at, world.color[0]);
            passed += 1;
        }
    }
    Some(passed)
}

/// The weight of each corner. A point on an edge is inside if it is a top or a left edge.
fn inside(corners: [Vertex; 3], at: [f32; 2]) -> Option<[f32; 3]> {
    let [a, b, c] = corners;
    let mut weights = [0.0; 3];
    for (weight, (from, to)) in weights.iter_mut().zip([(b, c), (c, a), (a, b)]) {
        *weight = area(from, to, at);
        let (right, down) = (to[0] - from[0], to[1] - from[1]);
        let keeps_edge = down < 0.0 || (down == 0.0 && right > 0.0);
        if *weight < 0.0 || (*weight == 0.0 && !keeps_edge) {
            return None;
        }
    }
    Some(weights)
}

#[cfg(test)]
mod tests {
    use ash::vk;

    use super::in_pixels;

    #[test]
    fn rd19_a_corner_that_is_not_finite_is_not_drawn() {
        let port = vk::Viewport { x: 0.0, y: 0.0, width: 16.0, height: 16.0, min_depth: 0.0, max_depth: 1.0 };
        let middle = Some([8.0, 8.0, 0.5, 1.0]);
        assert_eq!(in_pixels([0.0, 0.0, 0.5, 1.0], port), middle);
        let least = f32::MIN_POSITIVE / 8.0;
        for position in [
            [f32::NAN, 0.0, 0.0, 1.0],
            [0.0, f32::INFINITY, 0.0, 1.0],
            [f32::MAX, 0.0, 0.0, 0.5],
            [0.0, 0.0, 0.0, least],
            [0.0, 0.0, f32::INFINITY, f32::INFINITY],
        ] {
            assert_eq!(in_pixels(position, port), None, "{position:?}");
        }
        let wide = vk::Viewport { width: f32::INFINITY, ..port };
        assert_eq!(in_pixels([0.0, 0.0, 0.0, 1.0], wide), None);
    }
}
